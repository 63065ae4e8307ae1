"""The views of reviews: what waits for a person, alone or together with others of its shape, and the answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stream_guard.guard.reviews import Review
from stream_guard.history import bypasses, incidents, kept_events
from stream_guard.history.bypasses import shape_of
from stream_guard.history.incidents import Incident
from stream_guard.history.records import AnswerRefusedError, digest_of
from stream_guard.page.parts import PageTools, Views
from stream_guard.page.sign_in import answerer, back, first_of, who
from stream_guard.page.steps import steps_before_call
from stream_guard.serve.access import Identity
from stream_guard.serve.bodies import RequestRefused

_LISTED: Final = 200
_BATCH: Final = 200
_STATES: Final = ("open", "approved", "rejected", "used", "expired", "void", "acknowledged")
_MINUTES: Final = (5, 15, 60, 240)


class ReviewGroup(msgspec.Struct, frozen=True):
    """Open reviews of the same rules, tool and shape of arguments."""

    rules: tuple[str, ...]
    tool: str
    shape: str
    reviews: list[Review]
    whole: frozenset[str]  # the reviews whose arguments are all in the list: only those are answered from it


class ReviewViews(Views):
    """Reviews and what people say about them."""

    def __init__(self, tools: PageTools) -> None:
        super().__init__(tools)
        self._reviews = tools.parts.reviews

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [
            Route("/reviews", self.listing),
            Route("/reviews", self.answer_batch, methods=["POST"]),
            Route("/reviews/bypass", self.open_bypass, methods=["POST"]),
            Route("/reviews/bypass/{id}/end", self.end_bypass, methods=["POST"]),
            Route("/reviews/{id}", self.review),
            Route("/reviews/{id}", self.answer, methods=["POST"]),
        ]

    def listing(self, request: Request) -> Response:
        """Show what waits, grouped where one answer may serve for many; or what was answered."""
        status = request.query_params.get("status", "open")
        status = status if status in _STATES else "open"
        tenant = who(request).tenant
        found = self._reviews.listing(status, _LISTED, tenant)  # type: ignore[arg-type]  # one of the states
        waiting = [review for review in found if review.kind == "anomaly_review"]
        return self._tools.templates.page(
            request,
            "reviews.html",
            status=status,
            states=_STATES,
            groups=_groups(waiting) if status == "open" else [],
            reviews=found if status != "open" else [review for review in found if review.kind == "anomaly_alert"],
            bypasses=bypasses.active(self._database, time.time(), tenant),
            minutes=_MINUTES,
            now=time.time(),
        )

    def review(self, request: Request) -> Response:
        """Show one review, with the arguments in full."""
        found = self._reviews.get(request.path_params["id"], who(request).tenant)
        if found is None:
            raise RequestRefused(404, "There is no review of that id.")
        session = kept_events.find_session(self._database, found.session_id, who(request).tenant)
        return self._tools.templates.page(
            request,
            "review.html",
            review=found,
            steps=[] if session is None else steps_before_call(self._database, session, found.call_id),
            incidents=self._incidents(found, who(request).tenant),
            shape=shape_of(found.arguments),
            minutes=_MINUTES,
            now=time.time(),
            said=request.query_params.get("said", ""),
        )

    def _incidents(self, review: Review, tenant: str) -> list[Incident]:
        """Return the incidents that an answer to the review is about."""
        names = (incidents.incident_id(review.session_id, rule) for rule in review.rule_ids)
        found = (incidents.get(self._database, name, tenant) for name in names)
        return [incident for incident in found if incident is not None]

    async def answer(self, request: Request) -> Response:
        """Take an answer to one review."""
        fields = await self._tools.forms.read(request)
        identity, name = who(request), request.path_params["id"]
        by = answerer(identity, fields)
        work = self._work(first_of(fields, "answer"), identity, first_of(fields, "digest"))
        said = {"by": by, "note": first_of(fields, "note")[:2000], "tenant": identity.tenant, "via": identity.via}
        await run_in_threadpool(work, name, **said)
        return back(f"/reviews/{name}", by, identity)

    async def answer_batch(self, request: Request) -> Response:
        """Take one answer to several reviews, each with the digest of what was shown."""
        fields = await self._tools.forms.read(request)
        identity = who(request)
        by, answer = answerer(identity, fields), first_of(fields, "answer")
        chosen = fields.get("review", [])[:_BATCH]
        if not chosen:
            raise RequestRefused(422, "choose the reviews that the answer is for")
        refused: list[str] = []
        for entry in chosen:
            name, _, digest = entry.partition(":")
            work = self._work(answer, identity, digest)
            said = {"by": by, "note": first_of(fields, "note")[:2000], "tenant": identity.tenant, "via": identity.via}
            try:
                await run_in_threadpool(work, name, **said)
            except AnswerRefusedError as error:
                refused.append(str(error))
        if refused:
            text = f"{len(chosen) - len(refused)} of {len(chosen)} were answered; {'; '.join(refused[:5])}"
            raise RequestRefused(409, text)
        return back("/reviews", by, identity)

    async def open_bypass(self, request: Request) -> Response:
        """Let attempts of one shape through for a while; every one is recorded."""
        fields = await self._tools.forms.read(request)
        identity = who(request)
        _require(identity, "reviewer")
        by, review = answerer(identity, fields), first_of(fields, "review")
        minutes, note = first_of(fields, "minutes"), first_of(fields, "note")[:2000].strip()
        if minutes not in map(str, _MINUTES):
            raise RequestRefused(422, f"a bypass lasts {', '.join(map(str, _MINUTES))} minutes")
        if not note:
            raise RequestRefused(422, "say why these attempts need no person for a while: the note")
        grant = bypasses.Grant(by=by, note=note, via=identity.via, tenant=identity.tenant, seconds=60 * int(minutes))
        await run_in_threadpool(self._reviews.bypass, review, grant)
        return back("/reviews", by, identity)

    async def end_bypass(self, request: Request) -> Response:
        """End a bypass before its time."""
        fields = await self._tools.forms.read(request)
        identity = who(request)
        _require(identity, "reviewer", "operator")
        by = answerer(identity, fields)
        await run_in_threadpool(
            bypasses.end, self._database, request.path_params["id"], by=by, now=time.time(), tenant=identity.tenant
        )
        return back("/reviews", by, identity)

    def _work(self, answer: str, identity: Identity, digest: str) -> Callable[..., Any]:
        if answer == "approve":
            _require(identity, "reviewer")
            return lambda name, **said: self._reviews.approve(name, arguments_digest=digest, **said)
        if answer == "reject":
            _require(identity, "reviewer")
            return self._reviews.reject
        if answer == "acknowledge":
            _require(identity, "reviewer", "operator")
            return self._reviews.acknowledge
        raise RequestRefused(422, "the answer is approve, reject or acknowledge")


def waiting_about(tools: PageTools, session_id: str, rule_id: str, tenant: str) -> list[Review]:
    """Return the attempts that wait for a person because of one rule in one session."""
    found = tools.parts.reviews.listing("open", _LISTED, tenant)
    return [one for one in found if one.session_id == session_id and rule_id in one.rule_ids]


def _require(identity: Identity, *roles: str) -> None:
    if not identity.roles.intersection(roles):
        raise RequestRefused(403, f"This takes the token of a {' or an '.join(roles)}.")


def _groups(reviews: list[Review]) -> list[ReviewGroup]:
    groups: dict[tuple[tuple[str, ...], str, str], list[Review]] = {}
    for review in reviews:
        groups.setdefault((review.rule_ids, review.tool, shape_of(review.arguments)), []).append(review)
    return [ReviewGroup(*key, found, _whole(found)) for key, found in groups.items()]


def _whole(reviews: list[Review]) -> frozenset[str]:
    # Lists show excerpts. Nobody approves what was not shown, so what was cut or masked is opened first.
    return frozenset(review.id for review in reviews if digest_of(review.arguments) == review.arguments_digest)
