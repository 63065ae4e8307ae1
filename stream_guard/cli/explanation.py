"""Explanations on a terminal or as JSON: an alert, a session or a rule, from recordings or from the history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from stream_guard.cli.forms import find_name, plain, show_one
from stream_guard.cli.history import open_history
from stream_guard.cli.recorded import RecordedSessions
from stream_guard.cli.timeline import TimelinePrinter, file_of, near_miss_words
from stream_guard.commands import ListFormat
from stream_guard.errors import SettingsError
from stream_guard.explaining.rule_words import describe_rule
from stream_guard.explaining.survey import RuleSurvey, survey_rule
from stream_guard.explaining.timeline import RuleAccount, SessionTimeline, TimelineEntry, TimelineFinding
from stream_guard.history import incidents
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.policy.classes import classes_of
from stream_guard.policy.message_parts import did_you_mean
from stream_guard.reports.safe import visible
from stream_guard.starting.survey import described_classes, offered_tools

_MOST_CHANGES: Final = 8  # entries that made a state what it was, the latest ones
_MOST_TOOLS: Final = 8


def find_rule(name: str, policy: Policy) -> RuleSpec | None:
    """Return the rule of a policy that a name means."""
    return next((spec for spec in policy.rules if name in (spec.id, spec.slot)), None)


def no_rule(name: str, policy: Policy) -> str:
    """Return that a policy has no such rule, and which one may be meant."""
    return f"the policy has no rule {name[:80]!r}{did_you_mean(name, [spec.id for spec in policy.rules])}"


def _looks_at(spec: RuleSpec, tool: str) -> bool:
    """Whether a rule is about tools, and about this one: not about any tool there is."""
    tools = spec.rule.tools()
    return tools is not None and tools.matches(tool) and not tools.matches("")


class Explanation:
    """Prints what is asked for, as text or as JSON."""

    def __init__(self, recorded: RecordedSessions, policy: Policy, form: ListFormat, around: int) -> None:
        self._recorded = recorded
        self._policy = policy
        self._as_json = form is ListFormat.JSON
        self._around = around
        self._console = Console(highlight=False, markup=False, emoji=False)

    def rule(self, spec: RuleSpec, *, with_traces: bool) -> None:
        """Explain a rule, and what became of it in the recordings."""
        survey = (
            survey_rule(self._recorded.events(), self._policy, spec, self._recorded.limits) if with_traces else None
        )
        if self._as_json:
            show_one({"rule_id": spec.id, "kind": spec.kind, "words": describe_rule(spec), "survey": survey})
            return
        printer = TimelinePrinter(self._console)
        self._print_rule(printer, spec)
        if survey is not None:
            for line in _survey_words(survey):
                printer.line(line)

    def tool(self, name: str, *, with_traces: bool) -> None:
        """Explain what a tool is to the policy: its classes, each with the reason, and the rules that look at it.

        Where recordings offer the tool, classes that its description speaks for and the policy does not have it in
        are named too.
        """
        classes = classes_of(name, self._policy.tool_classes)
        rules = [spec.id for spec in self._policy.rules if _looks_at(spec, name)]
        described = self._described(name) if with_traces else {}
        proposed = {one: why for one, why in described.items() if one not in classes}
        if self._as_json:
            show_one({"tool": name, "classes": classes, "proposed": proposed, "rules": rules})
            return
        printer = TimelinePrinter(self._console)
        printer.line(visible(name), style="bold")
        for one, why in classes.items():
            printer.line(f"@{visible(one)}: {visible(why)}", indent=2)
        for one, why in proposed.items():
            printer.line(f"@{one}, if the policy lists it under tool_classes: {visible(why)}", indent=2)
        if not classes and not proposed:
            printer.line("it is in no class; list it under tool_classes if it belongs to one", indent=2)
        printer.line(f"rules that look at it: {visible(', '.join(rules) or 'none')}", indent=2)

    def _described(self, name: str) -> dict[str, str]:
        """Return the classes that the tool's definition speaks for, as it is first offered."""
        offered = (one for event in self._recorded.events() for one in offered_tools(event))
        return next((described_classes(definition) for tool, definition in offered if tool == name), {})

    def alert_or_session(self, name: str, rule: str) -> None:
        """Explain an alert, or a session with everything that was found and nearly found in it."""
        findings = self._recorded.survey.findings
        alert_id = find_name(name, {finding.alert_id for finding in findings}, "alerts")
        session_id = self._recorded.find_session(name) if alert_id is None else None
        if alert_id is None and session_id is None:
            sessions = self._recorded.survey.sessions
            raise SettingsError(
                f"{name[:80]!r} is no rule of the policy, no alert ({len(findings)} found) and no session "
                f"({len(sessions)} recorded){did_you_mean(name, [spec.id for spec in self._policy.rules])}"
            )
        if alert_id is not None:
            session_id = next(finding.session_id for finding in findings if finding.alert_id == alert_id)
        timeline = self._recorded.timeline(session_id or "")
        printer = TimelinePrinter(self._console, file_of(timeline.entries))
        if alert_id is not None:
            self._alert(alert_id, timeline, printer)
        else:
            self._session(timeline, rule, printer)

    def _alert(self, alert_id: str, timeline: SessionTimeline, printer: TimelinePrinter) -> None:
        entry, finding = _entry_of(alert_id, timeline)
        made = [known for known in timeline.entries[: timeline.entries.index(entry) + 1] if _changes(known, finding)]
        near = _near(timeline.entries, entry, self._around)
        if self._as_json:
            show_one(
                {
                    "session_id": timeline.session_id,
                    "finding": msgspec.to_builtins(finding),
                    "at": msgspec.to_builtins(entry),
                    "led_to_it": msgspec.to_builtins(made),
                    "around_it": msgspec.to_builtins(near),
                }
            )
            return
        printer.line(f"alert {finding.alert_id}", style="bold")
        printer.line(f"{finding.severity}: {finding.detail}")
        printer.line(f"session {visible(timeline.session_id)}")
        if entry.line:
            printer.line(f"{visible(entry.file)}:{entry.line}")
        for name, value in finding.evidence.items():
            printer.line(f"{visible(name)}: {plain(value)}", indent=2)
        spec = find_rule(finding.rule_id, self._policy)
        if spec is not None:
            printer.heading("The rule")
            self._print_rule(printer, spec)
        if made:
            printer.heading("What made its state what it was")
            if len(made) > _MOST_CHANGES:
                printer.line(f"... {len(made) - _MOST_CHANGES} earlier", indent=2, style="dim")
            for known in made[-_MOST_CHANGES:]:
                printer.entry(known, rule=finding.rule_id, mark=known is entry)
        printer.heading("Around it")
        printer.entries(near, marked=entry.number)

    def _session(self, timeline: SessionTimeline, rule: str, printer: TimelinePrinter) -> None:
        accounts = timeline.rules
        spec = find_rule(rule, self._policy)
        if spec is not None:
            accounts = tuple(account for account in accounts if account.slot == spec.slot)
        elif rule:
            raise SettingsError(no_rule(rule, self._policy))
        if self._as_json:
            show_one({**msgspec.to_builtins(timeline), "rules": msgspec.to_builtins(accounts)})
            return
        printer.line(f"session {visible(timeline.session_id)}", style="bold")
        if file := file_of(timeline.entries):
            printer.line(visible(file))
        printer.line(_session_words(timeline))
        if spec is not None:
            self._print_rule(printer, spec)
            about = [entry for entry in timeline.entries if _is_about(entry, spec.id)]
            if about:
                printer.heading("Events that moved it")
                printer.entries(about, rule=spec.id)
        elif timeline.findings:
            printer.heading("Found")
            printer.entries([entry for entry in timeline.entries if entry.findings], rule="")
        quiet = [account for account in accounts if not account.findings]
        if quiet:
            printer.heading("Not found")
        for account in quiet:
            rule_of = find_rule(account.slot, self._policy)
            words = _account_words(account, waits_for_text=rule_of is not None and bool(rule_of.rule.texts()))
            printer.line(f"{visible(account.rule_id)}: {words}", indent=2, hanging=4)

    def _print_rule(self, printer: TimelinePrinter, spec: RuleSpec) -> None:
        printer.line(f"{visible(spec.id)} ({spec.kind})", style="bold")
        for sentence in describe_rule(spec):
            printer.line(visible(sentence), indent=2)


def _entry_of(alert_id: str, timeline: SessionTimeline) -> tuple[TimelineEntry, TimelineFinding]:
    for entry in timeline.entries:
        for finding in entry.findings:
            if finding.alert_id == alert_id:
                return entry, finding
    raise SettingsError(f"alert {alert_id} was found in session {timeline.session_id} together with others only")


def _changes(entry: TimelineEntry, finding: TimelineFinding) -> bool:
    return any(change.rule_id == finding.rule_id for change in entry.changes)


def _is_about(entry: TimelineEntry, rule_id: str) -> bool:
    named = {change.rule_id for change in entry.changes} | {finding.rule_id for finding in entry.findings}
    return rule_id in named


def _near(entries: Sequence[TimelineEntry], entry: TimelineEntry, around: int) -> Sequence[TimelineEntry]:
    place = entries.index(entry)
    return entries[max(0, place - around) : place + around + 1]


def _session_words(timeline: SessionTimeline) -> str:
    entries = timeline.entries
    turns = sum(entry.kind == "turn" for entry in entries)
    calls = sum(entry.kind == "tool_call" for entry in entries)
    events = len(entries) + timeline.left_out
    return f"{events} events, {turns} turns, {calls} tool calls, {len(timeline.findings)} findings"


def _account_words(account: RuleAccount, *, waits_for_text: bool) -> str:
    """Return why a rule did not fire in a session."""
    said = []
    if account.lacking:
        said.append(f"could not judge without {', '.join(sorted(account.lacking))}")
    if account.near_miss is not None:
        said.append(near_miss_words(account.near_miss))
    elif not account.asked:
        said.append("the text it waits for never came" if waits_for_text else "nothing happened that it looks at")
    else:
        said.append(f"judged {account.asked} events; its state: {account.state}")
    return "; ".join(said)


def _survey_words(survey: RuleSurvey) -> list[str]:
    fired = f"fired {survey.findings} times in {survey.fired} of them" if survey.fired else "never fired"
    said = [f"In {survey.sessions} sessions it judged {survey.judged} events and {fired}."]
    if survey.lacking:
        lacks = ", ".join(f"{what} ({times})" for what, times in sorted(survey.lacking.items()))
        said.append(f"It could not judge where this was missing: {lacks}.")
    miss = survey.near_miss
    if miss is not None:
        said.append(f"Nearest miss, session {visible(miss.session_id)}: {near_miss_words(miss)}")
    elif not survey.fired and not survey.judged:
        tools = ", ".join(f"{name} ({times})" for name, times in list(survey.tools.items())[:_MOST_TOOLS])
        said.append(f"It saw nothing that it looks at. Tools that were called: {tools or 'none'}.")
    return said


def explain_from_history(name: str, history: str | None, settings_file: Path | None) -> None:
    """Show the incident of an alert, a session or an id, as the history has it."""
    with open_history(history, settings_file) as (database, _):
        known = incidents.listing(database, None, 10_000)
        wanted = [one for one in known if one.session_id == name]
        if not wanted:
            found = find_name(name, [one.id for one in known], "incidents")
            wanted = [one for one in known if one.id == found]
        if not wanted:
            wanted = [one for one in known if _has_alert(incidents.timeline(database, one.id), name)]
        if not wanted:
            raise SettingsError(
                f"{name[:80]!r} is no incident, no alert and no session of the history ({len(known)} incidents); "
                "to explain recordings, name them and the policy: stream-guard explain NAME TRACES --policy FILE"
            )
        for one in wanted:
            show_one({**msgspec.to_builtins(one), "timeline": incidents.timeline(database, one.id)})


def _has_alert(entries: Sequence[incidents.Entry], name: str) -> bool:
    return len(name) >= 4 and any(entry.alert_id.startswith(name) for entry in entries)
