"""A diff, in the forms that people and machines read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from io import StringIO
from typing import Any, Final, Literal

import msgspec
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stream_guard import Alert, Place, Policy, RecordedTurn, redact
from stream_guard.reports import (
    JUnitCase,
    JUnitSuite,
    Level,
    ReportForm,
    SarifResult,
    annotation,
    code,
    load_template,
    number,
    visible,
    write_junit,
    write_sarif,
)
from stream_guard_diff.alignment import Divergence
from stream_guard_diff.comparison import Diff, DiffReport, Timeline
from stream_guard_diff.deciding import GateAnswer, chance_words, change_words, interval_words, power_words
from stream_guard_diff.gate import ChangeLevel, level_named, level_of_finding
from stream_guard_diff.judging import ItemChange, MeasuredAxis
from stream_guard_diff.statistics import AxisReport

# The sentences that every report has: how an axis moved, how sure that is, how sessions were paired.

_HOW = {
    "label": "by their task",
    "id": "by their id",
    "content": "by what the user asked",
    "only": "as the only ones",
    "position": "by their position",
}


def change(axis: AxisReport) -> str:
    """Return how an axis moved, in a few words."""
    unit = f" {axis.unit}" if axis.unit else ""
    if axis.pairs == 0 and axis.per_turn is None:
        return "nothing to compare"
    return f"{number(axis.baseline)} → {number(axis.candidate)}{unit}"


def sureness(axis: AxisReport) -> str:
    """Return how sure the number is: the interval, and what to be careful about."""
    if not axis.pairs:
        return ""
    parts = [f"95 %: {number(axis.low)} to {number(axis.high)}" if axis.low != axis.high else f"n={axis.pairs}"]
    if "low_power" in axis.flags:
        parts.append(f"only {axis.pairs} pair{'s' * (axis.pairs != 1)}: may be chance")
    parts += [flag.replace("_", " ") for flag in axis.flags if flag not in ("low_power", "ci_crosses_zero")]
    return ", ".join(parts)


def moved(axes: Sequence[MeasuredAxis]) -> list[MeasuredAxis]:
    """Return the axes on which more than noise was found."""
    return [axis for axis in axes if axis.verdict != "noise"]


def pairing_sentence(report: DiffReport) -> str:
    """Return how sessions were paired, what only the measures count, and what was left out."""
    ways = Counter(session.paired_by for session in report.sessions if session.paired_by)
    parts = [f"{count} pair{'s' * (count != 1)} {_HOW[way]}" for way, count in ways.most_common() if way in _HOW]
    if report.samples:
        noise = report.noise
        parts.append(f"{noise.baseline} against {noise.candidate} sessions as two samples, since nothing pairs them")
    if report.further_trials:
        parts.append(f"{len(report.further_trials)} further trials of those tasks")
    if report.left_out:
        parts.append(f"{len(report.left_out)} left out")
    return f"Sessions: {'; '.join(parts)}." if parts else ""


def drift_sentence(report: DiffReport) -> str:
    """Return the result of the test over all sessions, or nothing where it was not made."""
    if report.drift is None:
        return ""
    test = report.drift.test
    if test.decision != "reject":
        return f"Taken as a whole, {test.n1} and {test.n2} sessions differ no more than chance explains."
    names = ", ".join(
        f"{visible(_DIMENSIONS.get(name, name))} ({'more' if by > 0 else 'less'})" for name, by in report.drift.moved
    )
    return f"Taken as a whole, the sessions behave differently; what moved most: {names}."


_DIMENSIONS = {
    "tool_call_rate": "calls in a turn",
    "distinct_tool_frac": "different tools in a turn",
    "stop_end_turn": "turns that end with an answer",
    "stop_tool_use": "turns that end with a call",
    "stop_other": "turns that end otherwise",
    "output_len_log": "tokens of a response",
    "latency_log": "latency",
    "refusal_flag": "refusals",
    "text_chars_log": "length of answers",
    "arg_keys_total_log": "arguments of calls",
    "error_token_flag": "answers that speak of errors",
    "numeric_token_density": "numbers in answers",
    "turns_log": "turns of a session",
    "failed_result_frac": "failed calls",
}


# Reports that machines read: JSON, JUnit, SARIF and GitHub's annotations.

_LEVELS: Final[dict[ChangeLevel, Level]] = {
    ChangeLevel.NONE: "none",
    ChangeLevel.MINOR: "note",
    ChangeLevel.MODERATE: "warning",
    ChangeLevel.SEVERE: "error",
}


def to_json(report: DiffReport, answer: GateAnswer) -> str:
    """Return the whole report as data; an infinite statistic is null, because JSON has no other word for it."""
    data = msgspec.to_builtins(report) | {"answer": msgspec.to_builtins(answer), "verdict": answer.verdict}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def to_junit(report: DiffReport, answer: GateAnswer) -> str:
    """Return a test case for each axis and each broken rule; what trips the gate is a failure."""
    if answer.by == "noise":
        cases = [JUnitCase(axis.title, _words(axis) if axis.blocks else None) for axis in report.noise.axes]
        return write_junit("stream-guard diff", (JUnitSuite("diff.measured", "diff.measured", cases),))
    reasons = set(answer.reasons)
    axes = []
    for axis in report.axes:
        failure = f"{axis.severity}: {change(axis)} {axis.note}".strip()
        axes.append(JUnitCase(axis.name, failure if f"{axis.name} is {axis.severity}" in reasons else None))
    rules = []
    for alert in report.regressions:
        fails = answer.trips and any(f"rule {visible(alert.rule_id)} " in reason for reason in reasons)
        rules.append(JUnitCase(f"{alert.rule_id} in {alert.session_id}", alert.detail if fails else None))
    suites = (JUnitSuite("diff.axes", "diff.axes", axes), JUnitSuite("diff.policy", "diff.policy", rules))
    return write_junit("stream-guard diff", suites)


def _words(axis: MeasuredAxis) -> str:
    return "; ".join(map(change_words, axis.changes))


def _level_of_alert(alert: Alert, report: DiffReport, answer: GateAnswer) -> Level:
    """A finding weighs what its severity says; where noise is measured, only a rule that blocks is an error."""
    if answer.by != "noise":
        return _LEVELS[level_of_finding(alert.severity)]
    said = f"breaks the rule {alert.rule_id}"
    blocking = {change.says for axis in report.noise.policy if axis.blocks for change in axis.changes}
    return "error" if said in blocking else "note"


def _measured_levels(report: DiffReport, answer: GateAnswer) -> Iterator[tuple[str, Level, str]]:
    """Yield the name, the level and the words of each axis that differs."""
    if answer.by == "noise":
        for axis in moved(report.noise.behaviour):
            yield axis.name, "error" if axis.blocks else "note", f"{axis.title}: {_words(axis)}"
        return
    for one in report.axes:
        if one.severity != "none":
            text = f"{one.name} is {one.severity}: {change(one)} {one.note}".strip()
            yield one.name, _LEVELS[level_named(one.severity)], text


def to_sarif(report: DiffReport, answer: GateAnswer, policy: Policy | None) -> str:
    """Return the regressions, each at the line of its rule in the policy file, and the axes that differ."""
    places = _places(policy)
    results = [
        SarifResult(
            alert.rule_id,
            _level_of_alert(alert, report, answer),
            f"{alert.detail} (session {alert.session_id}, turn {alert.index})",
            places.get(alert.rule_id),
            {"alertId": alert.alert_id},
        )
        for alert in report.regressions
    ]
    results += [SarifResult(f"axis/{name}", level, text) for name, level, text in _measured_levels(report, answer)]
    return write_sarif(results, sorted({result.rule_id for result in results if result.rule_id}))


def to_github(report: DiffReport, answer: GateAnswer, policy: Policy | None) -> str:
    """Return a line for each regression and each axis that differs, as GitHub shows them beside the code."""
    places = _places(policy)
    lines = []
    for alert in report.regressions:
        text = f"{alert.detail} (session {alert.session_id}, turn {alert.index})"
        level = _level_of_alert(alert, report, answer)
        lines.append(annotation(level, alert.rule_id, text, places.get(alert.rule_id)))
    lines += [annotation(level, f"diff {name}", text, None) for name, level, text in _measured_levels(report, answer)]
    return "\n".join(lines)


def _places(policy: Policy | None) -> dict[str, Place]:
    return {rule.id: rule.place for rule in policy.rules} if policy else {}


# The report for a comment on a pull request: Markdown. Texts of agents stand in code spans.

_MARKS: Final = {"none": "·", "minor": "🟡", "moderate": "🟠", "severe": "🔴"}
_VERDICT_MARKS: Final = {
    "worse": "🔴 worse",
    "changed": "🟠 changed",
    "better": "🟢 better",
    "small": "· too small to matter",
}
_CHARACTERS: Final = 21  # characters of a drawn interval, zero in the middle


def to_markdown(report: DiffReport, answer: GateAnswer) -> str:
    """Return the report; texts of agents stand in code spans, where they cannot link or mention anyone."""
    lines = [f"## {'❌' if answer.trips else '✅'} Behaviour diff", "", _plain(answer.verdict), ""]
    lines += _measured_lines(report)
    lines += _alert_lines(report)
    lines += _axis_lines(report)
    lines += _divergence_lines(report)
    lines += [
        line for sentence in (drift_sentence(report), pairing_sentence(report)) if sentence for line in ("", sentence)
    ]
    lines += [
        f"- left out: {code(left.session_id)} of the {left.side}: {code(left.why)}" for left in report.left_out[:10]
    ]
    if len(report.left_out) > 10:
        lines.append(f"- and {len(report.left_out) - 10} more")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """A verdict names tools and rules: nothing in it may link, mention, or be HTML."""
    return text.replace("@", "@\u200b").replace("<", "&lt;").replace("`", "'").replace("|", "¦")


def _measured_lines(report: DiffReport) -> list[str]:
    noise = report.noise
    if noise.not_measured or not noise.axes:
        return []
    lines = [
        f"{noise.baseline} against {noise.candidate} sessions; what chance explains is not listed.",
        "",
        "| | what changed | by (95 %) | less ← 0 → more | how rare by chance | shown best by |",
        "|---|---|---|---|---|---|",
    ]
    found = moved(noise.axes)
    for axis in found:
        because = f" (explained by: {axis.because})" if axis.because else ""
        mark = f"{_VERDICT_MARKS[axis.verdict]}{', blocks' if axis.blocks else ''}{because}"
        for one in axis.changes[:3]:
            shown = ", ".join(code(session) for session in one.sessions[:3])
            cells = (
                mark,
                code(change_words(one)),
                interval_words(one),
                f"`{drawn(one)}`",
                chance_words(one.chance),
                shown,
            )
            lines.append(f"| {' | '.join(cells)} |")
    if not found:
        lines[2:] = []
    calm = [axis for axis in noise.axes if axis.verdict == "noise"]
    lines += ["", "<details><summary>What would have been seen</summary>", ""]
    lines += [f"- {axis.title}: {power_words(axis, noise.candidate)}" for axis in calm]
    return [*lines, "", "</details>", ""]


def drawn(one: ItemChange) -> str:
    """Return an interval as a line of characters: zero in the middle, a change of everything at the ends."""

    def place(value: float) -> int:
        return round((max(-1.0, min(1.0, value)) + 1) / 2 * (_CHARACTERS - 1))

    marks = ["·"] * _CHARACTERS
    for position in range(place(one.low), place(one.high) + 1):
        marks[position] = "─"
    marks[(_CHARACTERS - 1) // 2] = "┼" if marks[(_CHARACTERS - 1) // 2] == "─" else "│"
    marks[place(one.effect)] = "●"
    return "".join(marks)


def _axis_lines(report: DiffReport) -> list[str]:
    lines = [
        "### Read to the letter",
        "",
        "| axis | baseline → candidate | severity | how sure |",
        "|---|---|---|---|",
    ]
    for axis in report.axes:
        level = "better" if axis.direction == "better" else axis.severity
        lines.append(f"| {axis.name} | {change(axis)} | {_MARKS[axis.severity]} {level} | {sureness(axis)} |")
    return lines


def _alert_lines(report: DiffReport) -> list[str]:
    lines: list[str] = []
    for title, alerts in (("Regressions", report.regressions), ("🟢 Fixes", report.fixes)):
        if alerts:
            lines += [f"### {title}: {len(alerts)}", ""]
            lines += [
                f"- {code(alert.rule_id)} ({alert.severity}) in {code(alert.session_id)}"
                f"{'' if alert.index is None else f', turn {alert.index}'}: {code(alert.detail)}"
                for alert in alerts[:20]
            ]
            lines += [f"- and {len(alerts) - 20} more"] if len(alerts) > 20 else []
            lines.append("")
    return lines


def _divergence_lines(report: DiffReport) -> list[str]:
    if report.first_divergence is None:
        return ["", "The sessions do not part."]
    first = report.first_divergence
    lines = [
        "",
        f"### Where they part: {report.divergence_count} place(s)",
        "",
        f"First at turn {first.baseline_turn} of {code(first.session_id)}: **{first.kind}**, {code(first.detail)}",
        "",
    ]
    return lines + [
        f"- **{divergence.kind}** ({number(divergence.confidence)}) "
        f"at {divergence.baseline_turn} / {divergence.candidate_turn} "
        f"of {code(divergence.session_id)}: {code(divergence.detail)}"
        for divergence in report.divergences
    ]


# The report for a terminal: tables.

_COLOURS: Final = {"none": "dim", "minor": "yellow", "moderate": "dark_orange", "severe": "bold red"}
_STYLES: Final = {"worse": "bold red", "changed": "dark_orange", "better": "green", "small": "dim", "noise": "dim"}


def to_table(report: DiffReport, answer: GateAnswer) -> str:
    """Return tables of what changed, then what the gate says."""
    written = StringIO()
    console = Console(file=written, width=120)
    console.print(Group(*_parts(report)))
    colour = "bold red" if answer.trips else "green"
    console.print(Text(answer.verdict, style=colour))
    return written.getvalue()


def _parts(report: DiffReport) -> list[RenderableType]:
    parts: list[RenderableType] = [*_measured(report), _axis_table(report)]
    for title, alerts in (("Regressions", report.regressions), ("Fixes", report.fixes)):
        if alerts:
            table = Table(title=f"{title}: {len(alerts)}", title_justify="left")
            for name in ("rule", "severity", "session", "turn", "detail"):
                table.add_column(name)
            for alert in alerts[:50]:
                turn = "-" if alert.index is None else str(alert.index)
                cells = (alert.rule_id, alert.severity, alert.session_id, turn, alert.detail)
                table.add_row(*(Text(visible(cell)) for cell in cells))
            parts.append(table)
    if report.first_divergence is not None:
        parts.append(_divergence_table(report))
    sentences = [drift_sentence(report), pairing_sentence(report)]
    sentences += [f"  left out: {one.session_id} of the {one.side}: {one.why}" for one in report.left_out[:5]]
    return parts + [Text(visible(sentence)) for sentence in sentences if sentence]


def _measured(report: DiffReport) -> list[RenderableType]:
    """What is more than noise, then what else could have been seen."""
    noise = report.noise
    if noise.not_measured or not noise.axes:
        return []
    title = f"Measured: {noise.baseline} against {noise.candidate} sessions in {noise.strata} strata"
    table = Table(title=title, title_justify="left")
    for name in ("axis", "verdict", "what changed", "95 %", "chance"):
        table.add_column(name)
    for axis in moved(noise.axes):
        verdict = f"{axis.verdict}{', blocks' if axis.blocks else ''}"
        for place, found in enumerate(axis.changes):
            first = (Text(axis.title), Text(verdict, style=_STYLES[axis.verdict])) if not place else (Text(), Text())
            words = Text(change_words(found))
            table.add_row(*first, words, Text(interval_words(found)), Text(chance_words(found.chance)))
        if axis.because:
            table.add_row(Text(), Text(), Text(f"explained by what got better: {axis.because}"), Text(), Text())
    calm = [axis for axis in noise.axes if axis.verdict == "noise"]
    for axis in calm:
        seen = f"no more than noise; would have been seen: {power_words(axis, noise.candidate)}"
        table.add_row(Text(axis.title), Text("noise", style="dim"), Text(seen, style="dim"), Text(), Text())
    return [table]


def _axis_table(report: DiffReport) -> Table:
    table = Table(title=f"Axes over {len(report.sessions)} session(s)", title_justify="left")
    for name in ("axis", "baseline → candidate", "severity", "how sure", "note"):
        table.add_column(name)
    for axis in report.axes:
        level = axis.severity if axis.severity != "none" else "better" if axis.direction == "better" else "-"
        cells = (Text(change(axis)), Text(level, style=_COLOURS[axis.severity]), Text(sureness(axis)))
        table.add_row(Text(axis.name), *cells, Text(visible(axis.note)))
    return table


def _divergence_table(report: DiffReport) -> Table:
    first = report.first_divergence
    assert first is not None  # noqa: S101  # asked before
    title = f"Divergences: {report.divergence_count}, the first at turn {first.baseline_turn} ({first.kind})"
    table = Table(title=title, title_justify="left")
    for name in ("class", "session", "baseline", "candidate", "what"):
        table.add_column(name)
    for divergence in report.divergences:
        table.add_row(
            divergence.kind.value,
            Text(visible(divergence.session_id)),
            str(divergence.baseline_turn),
            str(divergence.candidate_turn),
            Text(visible(divergence.detail)),
        )
    return table


# Sessions side by side: the turns around each divergence as cards, with the words that differ marked.

MAX_ROWS: Final = 200  # of one session that are shown; what is left out is counted
AROUND: Final = 1  # turns that are equal and are shown on either side of a divergence
_TEXT: Final = 400
_CALLS: Final = 8

TextPart = tuple[Literal["", "del", "ins"], str]


@dataclass(frozen=True, slots=True)
class TurnCard:
    """One turn as it is shown."""

    index: int
    parts: tuple[TextPart, ...]  # of its text; those that the other side does not have are marked
    calls: tuple[tuple[str, str], ...]  # tool and arguments
    more_calls: int
    stop: str


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A step: one card or both, with the divergence where there is one."""

    baseline: TurnCard | None
    candidate: TurnCard | None
    divergence: Divergence | None = None
    first: bool = False
    folded: int = 0  # instead of cards: this many steps that are equal


@dataclass(frozen=True, slots=True)
class SessionPage:
    """The rows of one session, and what it is called."""

    anchor: str
    name: str
    baseline: str
    candidate: str
    task: str
    rows: tuple[TimelineRow, ...]
    divergences: int
    left_out: int


def session_page(timeline: Timeline, anchor: str, *, rows: int = MAX_ROWS) -> SessionPage:
    """Return a session with up to so many of its rows."""
    made = list(_rows(timeline)) if timeline.divergences and rows > 0 else []
    shown = made[: min(rows, MAX_ROWS)]
    old, new = timeline.baseline.session_id, timeline.candidate.session_id
    name = old if old == new else f"{old or 'nothing'} → {new or 'nothing'}"
    return SessionPage(
        anchor,
        visible(name),
        old,
        new,
        visible(timeline.task),
        tuple(shown),
        len(timeline.divergences),
        len(made) - len(shown),
    )


def _rows(timeline: Timeline) -> Iterator[TimelineRow]:
    by_turns = {(found.baseline_turn, found.candidate_turn): found for found in timeline.divergences}
    divergences = [by_turns.get((step.old, step.new)) for step in timeline.steps]
    near = {
        place + offset
        for place, divergence in enumerate(divergences)
        if divergence is not None
        for offset in range(-AROUND, AROUND + 1)
    }
    equal = 0
    first = True
    for place, (step, divergence) in enumerate(zip(timeline.steps, divergences, strict=True)):
        if place not in near:
            equal += 1
            continue
        if equal:
            yield TimelineRow(None, None, folded=equal)
            equal = 0
        old = None if step.is_extra else timeline.baseline.turns[step.old]
        new = timeline.candidate.turns[step.new] if step.is_pair or step.is_extra else None
        yield TimelineRow(*_cards(old, new), divergence, first=first and divergence is not None)
        first = first and divergence is None
    if equal:
        yield TimelineRow(None, None, folded=equal)


def _cards(old: RecordedTurn | None, new: RecordedTurn | None) -> tuple[TurnCard | None, TurnCard | None]:
    texts = [_text(turn) if turn is not None else "" for turn in (old, new)]
    parts = _compare_words(texts[0], texts[1]) if old is not None and new is not None else _unmarked(texts)
    return (
        None if old is None else _card(old, parts[0]),
        None if new is None else _card(new, parts[1]),
    )


def _unmarked(texts: list[str]) -> tuple[tuple[TextPart, ...], tuple[TextPart, ...]]:
    first, second = ((("", text),) if text else () for text in texts)
    return first, second  # type: ignore[return-value]  # an empty string is one of the three


def _compare_words(old: str, new: str) -> tuple[tuple[TextPart, ...], tuple[TextPart, ...]]:
    """Return both texts in parts, with the words marked that only one has; texts that are little alike stay whole."""
    if old == new or not old or not new:
        return _unmarked([old, new])
    words = old.split(" "), new.split(" ")
    matcher = SequenceMatcher(None, *words, autojunk=False)
    if matcher.ratio() < 0.3:
        return _unmarked([old, new])
    sides: tuple[list[TextPart], list[TextPart]] = ([], [])
    for kind, start_old, end_old, start_new, end_new in matcher.get_opcodes():
        for side, part, mark in (
            (0, words[0][start_old:end_old], "del"),
            (1, words[1][start_new:end_new], "ins"),
        ):
            if part:
                sides[side].append(("" if kind == "equal" else mark, " ".join(part)))  # type: ignore[arg-type]  # as above
    return tuple(sides[0]), tuple(sides[1])


def _text(turn: RecordedTurn) -> str:
    # Cut first: searching a megabyte of text for secrets would be in vain.
    shown = visible(str(redact(turn.text[: _TEXT * 4])))
    return shown if len(shown) <= _TEXT else f"{shown[:_TEXT]}…"


def _card(turn: RecordedTurn, parts: tuple[TextPart, ...]) -> TurnCard:
    calls = tuple((visible(call.tool[:80]), _arguments(call.args)) for call in turn.calls[:_CALLS])
    return TurnCard(turn.index, parts, calls, max(0, len(turn.calls) - _CALLS), visible(turn.stop_reason[:40]))


def _arguments(args: object) -> str:
    shown = visible(json.dumps(redact(args), ensure_ascii=False))
    return shown if len(shown) <= 200 else f"{shown[:199]}…"


# The page for a browser: one file without script or network; what changed, drawn, and every session side by side.

MAX_PAGE_ROWS: Final = 6_000  # of all sessions together; beyond, a session has its line and no turns
OPEN: Final = 3  # sessions whose turns are shown at once
_PIXELS: Final = 240  # of a drawn interval, in pixels


@dataclass(frozen=True, slots=True)
class DrawnChange:
    """The places of a change on a line from -1 to 1, in pixels."""

    low: float
    high: float
    effect: float
    zero: float = _PIXELS / 2
    width: float = _PIXELS


def to_html(diff: Diff, answer: GateAnswer, *, baseline: str = "baseline", candidate: str = "candidate") -> str:
    """Return the page; ``baseline`` and ``candidate`` are the names of the sides in it."""
    report = diff.report
    filters: dict[str, Callable[..., Any]] = {
        "change": change,
        "sureness": sureness,
        "words": change_words,
        "interval": interval_words,
        "chance": chance_words,
        "drawn": draw,
    }
    template = load_template("stream_guard_diff", "diff.html.j2", **filters)
    pages = session_pages(diff)
    return template.render(
        report=report,
        noise=report.noise,
        moved=moved(report.noise.axes),
        calm=[
            (axis, power_words(axis, report.noise.candidate)) for axis in report.noise.axes if axis.verdict == "noise"
        ],
        pages=pages,
        anchors={name: page.anchor for page in reversed(pages) for name in (page.baseline, page.candidate) if name},
        answer=answer,
        drift=drift_sentence(report),
        pairing=pairing_sentence(report),
        baseline=visible(baseline),
        candidate=visible(candidate),
    )


def draw(one: ItemChange) -> DrawnChange:
    """Return where a change and its interval lie; what is more than everything lies at the end."""

    def place(value: float) -> float:
        return round((max(-1.0, min(1.0, value)) + 1) / 2 * _PIXELS, 1)

    return DrawnChange(place(one.low), place(one.high), place(one.effect))


def session_pages(diff: Diff) -> list[SessionPage]:
    """Return every session: those that show a change best first, then those with most divergences."""
    shown: dict[str, int] = {}
    for axis in diff.report.noise.axes:
        if axis.blocks:
            for one in axis.changes:
                for session in one.sessions:
                    shown.setdefault(session, len(shown))
    for alert in diff.report.regressions:
        shown.setdefault(alert.session_id, len(shown))

    def weight(placed: tuple[int, Timeline]) -> tuple[int, int, int]:
        place, timeline = placed
        return shown.get(timeline.candidate.session_id, len(shown)), -len(timeline.divergences), place

    ordered: Sequence[tuple[int, Timeline]] = sorted(enumerate(diff.timelines), key=weight)
    left = MAX_PAGE_ROWS
    pages: list[SessionPage] = []
    for place, timeline in ordered:
        page = session_page(timeline, f"s{place}", rows=left)
        left -= len(page.rows)
        pages.append(page)
    return pages


# A diff, in the forms that people and machines read.


def write_diff(
    diff: Diff,
    form: ReportForm,
    answer: GateAnswer,
    *,
    policy: Policy | None = None,
    baseline: str = "baseline",
    candidate: str = "candidate",
) -> str:
    """Return the diff in the given form; ``policy`` gives rules their place in SARIF and annotations."""
    report = diff.report
    forms = {
        ReportForm.TABLE: lambda: to_table(report, answer),
        ReportForm.JSON: lambda: to_json(report, answer),
        ReportForm.MARKDOWN: lambda: to_markdown(report, answer),
        ReportForm.JUNIT: lambda: to_junit(report, answer),
        ReportForm.SARIF: lambda: to_sarif(report, answer, policy),
        ReportForm.GITHUB: lambda: to_github(report, answer, policy),
        ReportForm.HTML: lambda: to_html(diff, answer, baseline=baseline, candidate=candidate),
    }
    return forms[form]()
