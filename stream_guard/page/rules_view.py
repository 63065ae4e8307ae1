"""The views of rules, agents and tools: how often a rule fires, whether it is right, and what agents do over time."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from stream_guard.analysis.exceptions import NoExceptionError, ProposedException, propose_exception
from stream_guard.analysis.labels import RuleAdvice, advise
from stream_guard.documents import write_yaml
from stream_guard.history import alert_rows, inquiries, kept_events, lessons, verdicts
from stream_guard.history.alert_rows import AlertFilter, NotedAlert, column
from stream_guard.history.inquiries import AskedInquiry
from stream_guard.history.lessons import KeptLesson, LessonState
from stream_guard.history.tallies import What
from stream_guard.history.verdicts import Verdict, VerdictCounts
from stream_guard.judge.spec import RuleSpec
from stream_guard.page import charts
from stream_guard.page.parts import Views
from stream_guard.page.parts import span as duration
from stream_guard.page.sign_in import answerer, first_of, require_all_tenants, who
from stream_guard.serve.bodies import RequestRefused

SPANS: Final = {"24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
_BARS: Final = 48
_LISTED: Final = 24
_REPLAYED: Final = 500  # sessions


class RuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, as the list shows it."""

    spec: RuleSpec
    findings: int
    rate: float | None  # findings for a thousand tool calls
    chart: Markup
    peak: int  # findings of the highest bar
    last: float | None  # when it was last noted
    unevaluable: int | None  # events it could not judge, since this process started
    errors: int | None
    said: VerdictCounts
    advice: RuleAdvice


class ActivityRow(NamedTuple):
    """An agent or a tool, and its calls over time."""

    name: str
    calls: int
    failed: int
    peak: int  # calls of the highest bar
    chart: Markup


class RuleViews(Views):
    """Rules, agents and tools in numbers."""

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [
            Route("/rules", self.listing),
            Route("/rules/{id:path}", self.rule),
            Route("/activity", self.activity),
        ]

    def listing(self, request: Request) -> Response:
        """Show every rule of the policy."""
        span = _span(request)
        return self._tools.templates.page(
            request, "rules.html", rows=self._rows(span, who(request).tenant), span_word=span, spans=SPANS,
            policy=self._tools.parts.policy(),
        )  # fmt: skip

    def rule(self, request: Request) -> Response:
        """Show one rule: what it says, and what it found last."""
        span, tenant, name = _span(request), who(request).tenant, request.path_params["id"]
        row = next((row for row in self._rows(span, tenant) if row.spec.id == name), None)
        if row is None:
            raise RequestRefused(404, "The policy in force has no rule of that id.")
        recent = alert_rows.page(self._database, AlertFilter(rule=name, tenant=tenant), limit=20)
        proposed, problem = self._propose(name, tenant) if request.query_params.get("exception") else (None, "")
        return self._tools.templates.page(
            request,
            "rule.html",
            row=row,
            bar=_bar(span),
            recent=recent.alerts,
            lacking=[] if tenant else self._lacking(name),
            span_word=span,
            spans=SPANS,
            proposed=proposed,
            proposed_yaml="" if proposed is None else write_yaml({"unless": proposed.unless}),
            problem=problem,
        )

    def _propose(self, rule_id: str, tenant: str) -> tuple[ProposedException | None, str]:
        """Return an exception for what was marked wrong, or why there is none."""
        said = verdicts.of_rule(self._database, rule_id, tenant)
        events = [
            event
            for session in list(dict.fromkeys(one.session_id for one in said))[:_REPLAYED]
            for event in kept_events.replay_session(self._database, session)
        ]
        try:
            marked = {one.alert_id: one.verdict for one in said}
            return propose_exception(self._tools.parts.policy(), rule_id, events, marked), ""
        except NoExceptionError as error:
            return None, str(error)

    def activity(self, request: Request) -> Response:
        """Show what agents and tools did over time."""
        span, tenant = _span(request), who(request).tenant
        return self._tools.templates.page(
            request,
            "activity.html",
            agents=self._charts("agent", span, tenant, {}),
            tools=self._charts("tool", span, tenant, self._series("tool_error", span, tenant)),
            bar=_bar(span),
            span_word=span,
            spans=SPANS,
        )

    def _rows(self, span: str, tenant: str) -> list[RuleRow]:
        rules = self._tools.parts.policy().rules
        found = self._series("finding", span, tenant)
        calls = sum(map(sum, self._series("tool", span, tenant).values()))
        last = self._last([spec.id for spec in rules], tenant)
        said = verdicts.counts(self._database, tenant)
        counts = None if tenant else self._tools.parts.counts  # they are about all tenants
        when = charts.ChartTime(time.time(), SPANS[span])
        advised = advise([spec.id for spec in rules], said)
        return [
            RuleRow(
                spec=spec,
                findings=sum(values := found.get(column(spec.id), [0] * _BARS)),
                rate=1000 * sum(values) / calls if calls else None,
                chart=charts.bars(
                    values, f"{sum(values)} findings over {span}", when, width=160, height=28, tone=spec.severity.word
                ),
                peak=max(values),
                last=last.get(spec.id),
                unevaluable=None if counts is None else counts.unevaluable.get(number, 0),
                errors=None if counts is None else counts.rule_errors.get(number, 0),
                said=said.get(column(spec.id), VerdictCounts()),
                advice=advised[number],
            )
            for number, spec in enumerate(rules)
        ]

    def _last(self, rules: list[str], tenant: str) -> dict[str, float]:
        """Return when each rule was last noted, in the eyes of somebody of one tenant where there is one."""
        if not tenant:
            return alert_rows.last_of_rules(self._database, rules)
        pages = {
            rule: alert_rows.page(self._database, AlertFilter(rule=rule, tenant=tenant), limit=1) for rule in rules
        }
        return {rule: page.alerts[0].noted for rule, page in pages.items() if page.alerts}

    def _lacking(self, rule_id: str) -> list[tuple[str, int]]:
        counts = self._tools.parts.counts
        found = {} if counts is None else dict(counts.lacking)
        return sorted(
            ((lacks, count) for (rule, lacks), count in found.items() if rule == rule_id), key=lambda one: -one[1]
        )

    def _series(self, what: What, span: str, tenant: str) -> dict[str, list[int]]:
        return self._tools.series.read(what, SPANS[span], _BARS, tenant)

    def _charts(self, what: What, span: str, tenant: str, failed: Mapping[str, list[int]]) -> list[ActivityRow]:
        when = charts.ChartTime(time.time(), SPANS[span])
        rows = []
        for name, values in list(self._series(what, span, tenant).items())[:_LISTED]:
            bad = failed.get(name, ())
            label = f"{sum(values)} calls over {span}, {sum(bad)} failed; {max(values)} in the busiest {_bar(span)}"
            chart = charts.bars(values, label, when, failed=bad, width=320, height=56)
            rows.append(ActivityRow(name, sum(values), sum(bad), max(values), chart))
        return rows


def _bar(span: str) -> str:
    """Return how long one bar of a chart is."""
    return duration(SPANS[span] / _BARS)


def _span(request: Request) -> str:
    word = request.query_params.get("span", "24h")
    return word if word in SPANS else "24h"


# The views of the judge: what it was asked, what it said, what that cost, and what people say of the same.


_LISTED_ANSWERS: Final = 100
_LOOKED_AT: Final = 200  # alerts of a rule, the latest, among which those of one inquiry are looked for


class JudgedAlert(msgspec.Struct, frozen=True):
    """An alert that rests on an answer, and what a person says of it."""

    noted: NotedAlert
    verdict: Verdict | None


class JudgeViews(Views):
    """Inquiries to the judge, in numbers and one by one."""

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
            asked=inquiries.listing(self._database, rule=rule, tenant=tenant, limit=_LISTED_ANSWERS),
            rule=rule,
            listed=_LISTED_ANSWERS,
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


# The view of learned rules: what each says and rests on, what people say of its findings, and accept or refuse.


_ANSWERS: Final[dict[str, LessonState]] = {"accept": "accepted", "refuse": "refused", "open": "open"}


class LessonRow(msgspec.Struct, frozen=True):
    """A learned rule, as the list shows it."""

    lesson: KeptLesson
    yaml: str
    in_force: str  # how it stands in the policy: enforced, in shadow mode, or not at all
    said: VerdictCounts


class LearnedViews(Views):
    """What was learned from recordings."""

    def routes(self) -> list[Route]:
        """Return the addresses."""
        return [Route("/learned", self.listing), Route("/learned", self.answer, methods=["POST"])]

    def listing(self, request: Request) -> Response:
        """Show every learned rule; those that wait for an answer first."""
        require_all_tenants(request)
        rows = self._rows()
        states = ("open", "accepted", "refused")
        groups = [(state, [row for row in rows if row.lesson.state == state]) for state in states]
        return self._tools.templates.page(request, "learned.html", groups=groups, rows=rows)

    async def answer(self, request: Request) -> Response:
        """Take an answer to one rule."""
        require_all_tenants(request)
        fields = await self._tools.forms.read(request)
        identity = who(request)
        state = _ANSWERS.get(first_of(fields, "answer"))
        if state is None:
            raise RequestRefused(422, "the answer is accept, refuse or open")
        said = {"by": answerer(identity, fields), "note": first_of(fields, "note")[:2000], "via": identity.via}
        name = first_of(fields, "rule")
        await run_in_threadpool(lessons.decide, self._database, name, state, time=time.time(), **said)
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
