"""The views of the judge: what it was asked, what it said, what that cost, and what people say of the same."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stream_guard.history import alert_rows, inquiries, verdicts
from stream_guard.history.alert_rows import AlertFilter, NotedAlert
from stream_guard.history.inquiries import AskedInquiry
from stream_guard.history.verdicts import Verdict
from stream_guard.page.parts import PageTools
from stream_guard.page.sign_in import who
from stream_guard.serve.bodies import RequestRefused

_LISTED: Final = 100
_LOOKED_AT: Final = 200  # alerts of a rule, the latest, among which those of one inquiry are looked for


class JudgedAlert(msgspec.Struct, frozen=True):
    """An alert that rests on an answer, and what a person says of it."""

    noted: NotedAlert
    verdict: Verdict | None


class JudgeViews:
    """Inquiries to the judge, in numbers and one by one."""

    def __init__(self, tools: PageTools) -> None:
        self._tools = tools
        self._database = tools.parts.database

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [Route("/judge", self.listing), Route("/judge/{id}", self.inquiry)]

    def listing(self, request: Request) -> Response:
        """Show what was asked, by rule and the latest ones."""
        tenant, rule = who(request).tenant, request.query_params.get("rule", "")[:500]
        return self._tools.templates.page(
            request,
            "judge.html",
            agreements=inquiries.agreements(self._database, tenant),
            asked=inquiries.listing(self._database, rule=rule, tenant=tenant, limit=_LISTED),
            rule=rule,
            listed=_LISTED,
        )

    def inquiry(self, request: Request) -> Response:
        """Show one inquiry whole: the words, the excerpt, the answer, and the alerts that rest on it."""
        tenant = who(request).tenant
        found = inquiries.find(self._database, request.path_params["id"][:100])
        if found is None or tenant not in ("", found.tenant):
            raise RequestRefused(404, "The judge was never asked this.")
        return self._tools.templates.page(
            request, "inquiry.html", asked=found, lines=_lines(found), alerts=self._alerts(found, tenant)
        )

    def _alerts(self, inquiry: AskedInquiry, tenant: str) -> list[JudgedAlert]:
        latest = alert_rows.page(self._database, AlertFilter(rule=inquiry.rule_id, tenant=tenant), limit=_LOOKED_AT)
        resting = [noted for noted in latest.alerts if inquiries.inquiry_of(noted.alert) == inquiry.id]
        return [JudgedAlert(noted, verdicts.of_alert(self._database, noted.alert.alert_id)) for noted in resting]


def _lines(inquiry: AskedInquiry) -> list[dict[str, Any]]:
    """Return the excerpt line by line: what sort of event it is, and what the judge was shown of it."""
    lines = [json.loads(line) for line in inquiry.excerpt]
    return [{"event": line.pop("event", ""), "asked": line.pop("asked", False), "shown": line} for line in lines]
