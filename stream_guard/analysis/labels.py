"""How right rules are: findings against labels that people gave to sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import median
from typing import Final, Literal, TypeAlias

import msgspec

from stream_guard.errors import SettingsError
from stream_guard.history.alert_rows import column
from stream_guard.history.verdicts import VerdictCounts
from stream_guard.judge.model import Finding

Label: TypeAlias = bool | int | Sequence[str]
Labels: TypeAlias = Mapping[str, Label]
"""By session: whether it was bad; the turn from which on it was; or the ids of the rules that it breaks."""

ANY_RULE: Final = "(any rule)"
_Z: Final = 1.959964  # of 95 %


class DetectionShare(msgspec.Struct, frozen=True):
    """A share of some sessions, with the interval that holds the true one in 95 of 100 cases."""

    hits: int
    of: int

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.hits / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's score interval, which also holds for few sessions and for shares near 0 and 1."""
        if not self.of:
            return None
        share, spread = self.hits / self.of, _Z * _Z / self.of
        middle = (share + spread / 2) / (1 + spread)
        half = _Z * sqrt(share * (1 - share) / self.of + spread / (4 * self.of)) / (1 + spread)
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        if self.interval is None:
            return "-"
        low, high = self.interval
        return f"{self.value:.2f} [{low:.2f}, {high:.2f}]"


class DetectionScore(msgspec.Struct, frozen=True, kw_only=True):
    """How right one rule is, session by session."""

    rule_id: str
    precision: DetectionShare  # of the labelled sessions it fires in, those that are bad
    recall: DetectionShare  # of the bad sessions, those it fires in
    benign: DetectionShare  # of the sessions that are fine, those it fires in
    delay: float | None  # the median of the turns from where a session went bad to the finding; None if nobody says


def read_labels(text: bytes, name: str) -> Labels:
    """Return the labels of a JSON file, or raise SettingsError."""
    try:
        return msgspec.json.decode(text, type=dict[str, bool | int | list[str]])
    except msgspec.MsgspecError as error:
        advice = 'write {"session-1": true, "session-2": false}, a turn, or the ids of the rules a session breaks'
        raise SettingsError(f"{name}: {error}; {advice}") from None


def is_bad(label: Label, rule_id: str) -> bool:
    """Whether a session with this label is bad, as far as the rule goes."""
    if isinstance(label, bool):
        return label
    return isinstance(label, int) or (bool(label) if rule_id == ANY_RULE else rule_id in label)


def score_rules(rule_ids: Iterable[str], findings: Iterable[Finding], labels: Labels) -> list[DetectionScore]:
    """Return the score of each rule, and of all together. Sessions without a label do not count."""
    first: dict[str, dict[str, int | None]] = {rule_id: {} for rule_id in [*rule_ids, ANY_RULE]}
    for finding in findings:
        if finding.session_id in labels:
            for name in (finding.rule_id, ANY_RULE):
                first.setdefault(name, {}).setdefault(finding.session_id, finding.index)
    return [_score(rule_id, fired, labels) for rule_id, fired in first.items()]


def _score(rule_id: str, fired: Mapping[str, int | None], labels: Labels) -> DetectionScore:
    bad = {name for name, label in labels.items() if is_bad(label, rule_id)}
    right = [name for name in fired if name in bad]
    return DetectionScore(
        rule_id=rule_id,
        precision=DetectionShare(len(right), len(fired)),
        recall=DetectionShare(len(right), len(bad)),
        benign=DetectionShare(len(fired) - len(right), len(labels) - len(bad)),
        delay=_delay(fired, labels),
    )


def _delay(fired: Mapping[str, int | None], labels: Labels) -> float | None:
    turns = [
        index - label
        for name, index in fired.items()
        if index is not None and isinstance(label := labels[name], int) and not isinstance(label, bool)
    ]
    return median(turns) if turns else None


def score_table(scores: Sequence[DetectionScore]) -> list[str]:
    """Return the lines of a table."""
    width = max([len(score.rule_id) for score in scores] + [4])
    lines = [f"{'rule':{width}}  {'precision':18}  {'recall':18}  {'alerts on fine':18}  delay"]
    for score in scores:
        delay = "-" if score.delay is None else f"{score.delay:g} turns"
        shares = "  ".join(f"{share!s:18}" for share in (score.precision, score.recall, score.benign))
        lines.append(f"{score.rule_id:{width}}  {shares}  {delay}")
    return lines


# Whether to keep, tune or retire a rule, by what people said of its findings.


Advice: TypeAlias = Literal["keep", "tune", "retire", "undecided"]

MINIMUM: Final = 10  # verdicts below which nothing is said
_GOOD: Final = 0.2  # a false share up to here is worth keeping
_HOPELESS: Final = 0.9  # from here on nobody reads the rule's alerts


class RuleAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about one rule, and why."""

    rule_id: str
    advice: Advice
    why: str
    right: int
    wrong: int
    benign: int
    false_share: float | None


def advise(rules: Sequence[str], counts: Mapping[str, VerdictCounts], minimum: int = MINIMUM) -> list[RuleAdvice]:
    """Return the advice on every rule; ``counts`` go by the names that columns have."""
    return [_advice(rule, counts.get(column(rule), VerdictCounts()), minimum) for rule in rules]


def _advice(rule_id: str, said: VerdictCounts, minimum: int) -> RuleAdvice:
    share = said.false_share
    if said.total < minimum or share is None:
        lacking = minimum - said.total
        advice, why = "undecided", f"{lacking} more verdict{'' if lacking == 1 else 's'} needed, of {minimum}"
    elif share <= _GOOD:
        advice, why = "keep", f"{said.right} of {said.total} findings were right"
    elif share >= _HOPELESS:
        advice, why = "retire", f"{said.wrong + said.benign} of {said.total} findings were needed by nobody"
    else:
        advice, why = "tune", f"{said.wrong} wrong and {said.benign} benign among {said.total}: look for an exception"
    return RuleAdvice(
        rule_id=rule_id,
        advice=advice,  # type: ignore[arg-type]  # one of the words
        why=why,
        right=said.right,
        wrong=said.wrong,
        benign=said.benign,
        false_share=share,
    )
