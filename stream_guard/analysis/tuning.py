"""Whether to keep, tune or retire a rule, by what people said of its findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from stream_guard.history.alert_rows import column
from stream_guard.history.verdicts import VerdictCounts

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
