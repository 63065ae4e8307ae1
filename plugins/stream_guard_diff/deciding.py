"""What is said of changes, and the answer of the gate: whether what changed may merge."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from stream_guard.reports import visible
from stream_guard_diff.comparison import DiffReport
from stream_guard_diff.gate import FailOn, GateOn
from stream_guard_diff.judging import ItemChange, MeasuredAxis


def change_words(change: ItemChange) -> str:
    """Return what changed, with both numbers."""
    says = visible(change.says)
    if change.scale == "ratio":
        return f"{says}: {_amount(change.before)} → {_amount(change.after)} ({share_words(change, change.effect)})"
    among = f" that {visible(change.among)}" if change.among else ""
    return f"{says} in {change.after:.0%} of the sessions{among} (before: {change.before:.0%})"


def share_words(change: ItemChange, value: float) -> str:
    """Return an effect, or an end of its interval, with its sign and its unit."""
    if change.scale == "ratio":
        return f"{value:+.0%}"
    return f"{value * 100:+.0f} points"


def interval_words(change: ItemChange) -> str:
    """Return the interval of an effect."""
    return f"{share_words(change, change.low)} to {share_words(change, change.high)}"


def chance_words(chance: float) -> str:
    """Return a probability as people say it: how often chance alone would show as much."""
    if chance <= 0.001:
        return "by chance less than once in 1,000 comparisons"
    if chance >= 0.5:
        return "as chance has it"
    return f"by chance about once in {round(1 / chance):,} comparisons"


def power_words(axis: MeasuredAxis, candidate: int) -> str:
    """Return what an axis could have seen with these sessions, and how many would be needed to see more."""
    parts = []
    if axis.new_in is not None:
        parts.append(f"something new in {axis.new_in} of {candidate} sessions")
    if axis.detectable is not None and axis.detectable < 1:
        parts.append(f"a change of {max(1.0, axis.detectable * 100):.0f} points in something usual")
    seen = " or ".join(parts) if parts else "nothing: these sessions are too few"
    if axis.sessions_needed is not None and axis.sessions_needed > candidate:
        return f"{seen}; for 10 points about {axis.sessions_needed:,} sessions a side"
    return seen


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


# The answer of the gate: by what is more than noise, or by the letter where --fail-on asks for that.

MOST_REASONS: Final = 6


class GateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a change may merge, and why."""

    trips: bool
    verdict: str  # one sentence, for people
    reasons: tuple[str, ...] = ()
    by: Literal["noise", "letter", "none"] = "noise"  # what answered: the measured noise, or --fail-on
    unsure: str = ""  # why nothing could be told; such an answer is no pass


def decide(report: DiffReport, gate: GateOn = "all", fail_on: FailOn | None = None) -> GateAnswer:
    """Return the answer. Where chance cannot be measured, the letter answers: a gate that cannot fail is none."""
    if fail_on is FailOn.NONE:
        sentence = (
            f"No gate was asked for (--fail-on none). The worst change, read to the letter, is {report.severity}."
        )
        return GateAnswer(trips=False, verdict=sentence, by="none")
    if fail_on is not None:
        return _by_the_letter(report, fail_on)
    if not report.sessions and not report.noise.candidate:
        return GateAnswer(trips=False, verdict="There is nothing to compare.", unsure="neither side holds a session")
    if report.noise.not_measured:
        return _by_the_letter(report, FailOn.SEVERE, because=report.noise.not_measured)
    return _by_noise(report, gate)


def _by_the_letter(report: DiffReport, fail_on: FailOn, because: str = "") -> GateAnswer:
    prefix = f"{because[0].upper()}{because[1:]}, so every difference counts. " if because else ""
    if report.samples:
        why = "sessions could not be paired, and --fail-on compares pairs; name a label with --task-label"
        return GateAnswer(trips=False, verdict=f"{prefix}It cannot be told.", by="letter", unsure=why)
    reasons = tuple(map(visible, report.reasons(fail_on)))
    if report.trips(fail_on):
        return GateAnswer(
            trips=True, verdict=f"{prefix}Must not merge: {_listed(reasons)}.", reasons=reasons, by="letter"
        )
    sentence = f"{prefix}May merge: the worst change is {report.severity}, and the gate is {fail_on}."
    return GateAnswer(trips=False, verdict=sentence, by="letter")


def _by_noise(report: DiffReport, gate: GateOn) -> GateAnswer:
    noise = report.noise
    axes = {"policy": noise.policy, "behaviour": noise.behaviour, "all": noise.axes}[gate]
    reasons = [reason for axis in axes if axis.blocks for reason in _reasons(axis)]
    if reasons:
        return GateAnswer(trips=True, verdict=f"Must not merge: {_listed(reasons)}.", reasons=tuple(reasons))
    if gate == "policy" and not noise.policy and not report.policy_version:
        return GateAnswer(
            trips=False, verdict="The gate is the policy, and none was given.", unsure="--gate policy needs --policy"
        )
    return GateAnswer(trips=False, verdict=f"May merge: {_calm(axes)}")


def _reasons(axis: MeasuredAxis) -> list[str]:
    blocking = [change for change in axis.changes if change.large and change.direction != "better"]
    return [f"{axis.title}: {change_words(change)}" for change in blocking[:1]]


def _listed(reasons: list[str] | tuple[str, ...]) -> str:
    more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
    return "; ".join(reasons[:MOST_REASONS]) + more


def _calm(axes: tuple[MeasuredAxis, ...]) -> str:
    """Say what passing means: what differs is chance, too small, better, or explained by what got better."""
    better = [axis.title for axis in axes if axis.verdict == "better"]
    explained = [axis.title for axis in axes if axis.because]
    small = [axis.title for axis in axes if axis.verdict == "small"]
    told = [
        axis.title for axis in axes if axis.verdict in ("worse", "changed") and not axis.blocks and not axis.because
    ]
    parts = [
        "nothing got worse by more than chance explains",
        *([f"better: {', '.join(better)}"] if better else []),
        *([f"changed because of that: {', '.join(explained)}"] if explained else []),
        *([f"changed too little to matter: {', '.join(small)}"] if small else []),
        *([f"changed, and does not block: {', '.join(told)}"] if told else []),
    ]
    return "; ".join(parts) + f". {_seen(axes)}".rstrip()


def _seen(axes: tuple[MeasuredAxis, ...]) -> str:
    counted = [axis.new_in for axis in axes if axis.new_in is not None and axis.blocks is False]
    if not counted:
        return ""
    return f"A new fault in {max(counted)} sessions or more would have been seen."
