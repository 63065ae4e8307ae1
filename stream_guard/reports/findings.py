"""What a check found, as a report: a summary by rule, the findings by session, in every form that is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from stream_guard import reports as forms  # writers that need an extra are loaded when they are asked for
from stream_guard.alerting.alerts import make_alert
from stream_guard.errors import Place
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Alert, Finding, Severity
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.reports import JUnitCase, JUnitSuite, Level, SarifResult
from stream_guard.reports.safe import annotation, code, visible

LEVELS: Final[Mapping[str, Level]] = {"critical": "error", "error": "error", "warning": "warning", "info": "note"}
_MOST_SESSIONS: Final = 50  # in a comment on a pull request
_MOST_OF_SESSION: Final = 20


class RuleSummary(NamedTuple):
    """One rule over all sessions."""

    rule_id: str
    kind: str
    severity: str
    findings: int
    sessions: int  # with findings
    shadow: int  # findings that are only recorded
    unjudged: int  # events it could not judge


class FindingReport:
    """The findings of one check, redacted as alerts are. Those of rules in shadow mode are kept apart."""

    def __init__(self, policy: Policy, found: Iterable[Finding], counts: Counts) -> None:
        found = list(found)
        self.policy = policy
        self.all = [make_alert(finding, policy.version) for finding in found]
        self.alerts = [alert for alert in self.all if not alert.shadow]
        self.shadows = [alert for alert in self.all if alert.shadow]
        self.events = sum(counts.events.values())
        self.rules = tuple(_summaries(policy, found, counts))
        self._places = {spec.id: _place_of(spec, policy) for spec in policy.rules}

    def by_session(self) -> dict[str, list[Alert]]:
        """Return the alerts of each session, sessions in the order of their first."""
        return by_session(self.alerts)

    def place(self, alert: Alert) -> Place | None:
        """Return where the event of an alert stands, or else its rule."""
        return Place(alert.file, alert.line) if alert.line else self._places.get(alert.rule_id)

    def sentence(self) -> str:
        """Return the whole in one sentence."""
        shadow = f" ({len(self.shadows)} more in shadow mode)" if self.shadows else ""
        sessions = len(self.by_session())
        return f"{_many(len(self.alerts), 'finding')}{shadow} in {_many(sessions, 'session')}, {self.events:,} events"


def by_session(alerts: Iterable[Alert]) -> dict[str, list[Alert]]:
    """Return alerts grouped by session, sessions in the order of their first."""
    grouped: dict[str, list[Alert]] = {}
    for alert in alerts:
        grouped.setdefault(alert.session_id, []).append(alert)
    return grouped


def to_markdown(report: FindingReport) -> str:
    """Return the report for a comment on a pull request: rules first, then sessions."""
    lines = [f"## stream-guard: {report.sentence()}", "", *_rule_rows(report)]
    grouped = list(report.by_session().items())
    for session_id, alerts in grouped[:_MOST_SESSIONS]:
        lines += ["", f"### {code(session_id)}", ""]
        lines += [_item(alert) for alert in alerts[:_MOST_OF_SESSION]]
        if len(alerts) > _MOST_OF_SESSION:
            lines.append(f"- and {len(alerts) - _MOST_OF_SESSION} more")
    if len(grouped) > _MOST_SESSIONS:
        lines += ["", f"and {len(grouped) - _MOST_SESSIONS} more sessions"]
    return "\n".join([*lines, ""])


def _rule_rows(report: FindingReport) -> list[str]:
    rows = ["| rule | severity | findings | sessions | shadow | not judged |", "|---|---|---:|---:|---:|---:|"]
    for rule in report.rules:
        numbers = (rule.findings, rule.sessions, rule.shadow, rule.unjudged)
        rows.append(f"| {code(rule.rule_id)} | {rule.severity} | {' | '.join(f'{number:,}' for number in numbers)} |")
    return rows


def _item(alert: Alert) -> str:
    turn = "" if alert.index is None else f", turn {alert.index}"
    place = f", {code(f'{alert.file}:{alert.line}')}" if alert.line else ""
    return f"- **{alert.severity}** {code(alert.rule_id)}{turn}{place}: {code(alert.detail)} ({code(alert.alert_id)})"


def to_sarif(report: FindingReport) -> str:
    """Return the findings, each at the line of its event, or of its rule where that is not known."""
    results = [
        SarifResult(
            alert.rule_id,
            LEVELS[alert.severity],
            f"session {alert.session_id}: {_with_reason(alert)}",
            report.place(alert),
            {"alertId/v1": alert.alert_id},
        )
        for alert in report.alerts
    ]
    return forms.write_sarif(results, [spec.id for spec in report.policy.rules])


def to_junit(report: FindingReport) -> str:
    """Return a suite for each rule, with a failure for each session that it found something in."""
    suites = [JUnitSuite(rule.rule_id, f"{rule.kind}.{rule.rule_id}", _cases(report, rule)) for rule in report.rules]
    return forms.write_junit("stream-guard check", suites)


def _cases(report: FindingReport, rule: RuleSummary) -> list[JUnitCase]:
    failed: dict[str, list[str]] = {}
    for alert in report.alerts:
        if alert.rule_id == rule.rule_id:
            place = f"{alert.file}:{alert.line}: " if alert.line else ""
            failed.setdefault(alert.session_id, []).append(f"{place}{_with_reason(alert)} [{alert.alert_id}]")
    if failed:
        return [JUnitCase(session, failure="; ".join(texts)) for session, texts in failed.items()]
    if rule.unjudged:
        return [JUnitCase("all sessions", skipped=f"{rule.unjudged} events could not be judged")]
    return [JUnitCase("all sessions")]


def to_github(report: FindingReport) -> str:
    """Return a line for each finding that GitHub shows beside the code."""
    lines = [
        annotation(
            LEVELS[alert.severity],
            alert.rule_id,
            f"session {alert.session_id}: {_with_reason(alert)}",
            report.place(alert),
        )
        for alert in report.alerts
    ]
    return "\n".join([*lines, f"::notice title=stream-guard::{visible(report.sentence())}"])


def to_html(report: FindingReport) -> str:
    """Return one page without script or network: a table of rules, then every session."""
    template = forms.load_template("stream_guard.reports", "check.html")
    return template.render(report=report, sessions=report.by_session(), many=_many)


def _with_reason(alert: Alert) -> str:
    return f"{alert.detail} ({alert.reason})" if alert.reason else alert.detail


def _summaries(policy: Policy, found: Sequence[Finding], counts: Counts) -> Iterable[RuleSummary]:
    sent = Counter(finding.slot for finding in found if not finding.shadow)
    shadow = Counter(finding.slot for finding in found if finding.shadow)
    sessions = Counter(slot for slot, _ in {(finding.slot, finding.session_id) for finding in found})
    known = {spec.slot for spec in policy.rules}
    for number, spec in enumerate(policy.rules):
        row = (sent[spec.slot], sessions[spec.slot], shadow[spec.slot], counts.unevaluable.get(number, 0))
        yield RuleSummary(spec.id, spec.kind, spec.severity.word, *row)
    for slot in sorted(set(sent) - known):  # of no rule: names in disguise, arguments that are not certain
        first = next(finding for finding in found if finding.slot == slot)
        worst: Severity = max(finding.severity for finding in found if finding.slot == slot)
        yield RuleSummary(first.rule_id, first.kind, worst.word, sent[slot], sessions[slot], 0, 0)


def _place_of(spec: RuleSpec, policy: Policy) -> Place | None:
    place = spec.place
    if place.file or not policy.file:
        return place if place.file else None
    return Place(policy.file, place.line, place.column)


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
