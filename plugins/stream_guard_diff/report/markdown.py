"""The report for a comment on a pull request: Markdown. Texts of agents stand in code spans."""

from __future__ import annotations

from typing import Final

from stream_guard.reports import code, number
from stream_guard_diff.change_sentences import chance_words, change_words, interval_words, power_words
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.deciding import GateAnswer
from stream_guard_diff.judging import ItemChange
from stream_guard_diff.report.summary import change, drift_sentence, moved, pairing_sentence, sureness

_MARKS: Final = {"none": "·", "minor": "🟡", "moderate": "🟠", "severe": "🔴"}
_VERDICTS: Final = {
    "worse": "🔴 worse",
    "changed": "🟠 changed",
    "better": "🟢 better",
    "small": "· too small to matter",
}
_WIDTH: Final = 21  # characters of a drawn interval, zero in the middle


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
        mark = f"{_VERDICTS[axis.verdict]}{', blocks' if axis.blocks else ''}{because}"
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
        return round((max(-1.0, min(1.0, value)) + 1) / 2 * (_WIDTH - 1))

    marks = ["·"] * _WIDTH
    for position in range(place(one.low), place(one.high) + 1):
        marks[position] = "─"
    marks[(_WIDTH - 1) // 2] = "┼" if marks[(_WIDTH - 1) // 2] == "─" else "│"
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
