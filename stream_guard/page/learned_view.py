"""The view of learned rules: what each says and rests on, what people say of its findings, and accept or refuse."""

from __future__ import annotations

import time
from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from stream_guard.documents import write_yaml
from stream_guard.history import lessons, verdicts
from stream_guard.history.alert_rows import column
from stream_guard.history.lessons import KeptLesson, LessonState
from stream_guard.history.records import AnswerRefusedError
from stream_guard.history.verdicts import VerdictCounts
from stream_guard.page.parts import PageTools
from stream_guard.page.sign_in import answerer, first_of, who
from stream_guard.serve.bodies import RequestRefused

_ANSWERS: Final[dict[str, LessonState]] = {"accept": "accepted", "refuse": "refused", "open": "open"}


class LessonRow(msgspec.Struct, frozen=True):
    """A learned rule, as the list shows it."""

    lesson: KeptLesson
    yaml: str
    in_force: str  # how it stands in the policy: enforced, in shadow mode, or not at all
    said: VerdictCounts


class LearnedViews:
    """What was learned from recordings."""

    def __init__(self, tools: PageTools) -> None:
        self._tools = tools
        self._database = tools.parts.database

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [Route("/learned", self.listing), Route("/learned", self.answer, methods=["POST"])]

    def listing(self, request: Request) -> Response:
        """Show every learned rule; those that wait for an answer first."""
        _require_all_tenants(request)
        rows = self._rows()
        states = ("open", "accepted", "refused")
        groups = [(state, [row for row in rows if row.lesson.state == state]) for state in states]
        return self._tools.templates.page(request, "learned.html", groups=groups, rows=rows)

    async def answer(self, request: Request) -> Response:
        """Take an answer to one rule."""
        _require_all_tenants(request)
        fields = await self._tools.forms.read(request)
        identity = who(request)
        state = _ANSWERS.get(first_of(fields, "answer"))
        if state is None:
            raise RequestRefused(422, "the answer is accept, refuse or open")
        said = {"by": answerer(identity, fields), "note": first_of(fields, "note")[:2000], "via": identity.via}
        name = first_of(fields, "rule")
        try:
            await run_in_threadpool(lessons.decide, self._database, name, state, time=time.time(), **said)
        except AnswerRefusedError as error:
            raise RequestRefused(404, str(error)) from None
        return RedirectResponse("/learned", 303)

    def _rows(self) -> list[LessonRow]:
        said = verdicts.counts(self._database)
        policy = {spec.id: "shadow" if spec.shadow else "enforced" for spec in self._tools.parts.policy().rules}
        return [
            LessonRow(
                lesson,
                write_yaml(lesson.rule),
                policy.get(lesson.id, ""),
                said.get(column(lesson.id), VerdictCounts()),
            )
            for lesson in lessons.listing(self._database)
        ]


def _require_all_tenants(request: Request) -> None:
    if who(request).tenant:
        raise RequestRefused(403, "This is about all tenants; it takes a token that belongs to none.")
