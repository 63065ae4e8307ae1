"""What a step, or a whole case, may be expected to come to, and whether it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from tests.vectors.attacks.steps import text_of
from tests.vectors.case import CannotRunError

_PREFIX: Final = "stream_guard_"


@dataclass(slots=True)
class Alarms:
    """The metrics of all processes of a case, added up; by name, and by name and one label's value."""

    values: Counter[tuple[str, str]] = field(default_factory=Counter)

    def read(self, exposition: str) -> None:
        """Add what a process published."""
        for family in text_string_to_metric_families(exposition):
            for sample in family.samples:
                name = sample.name.removeprefix(_PREFIX)
                for label in {"", *sample.labels.values()}:
                    self.values[name, label] += int(sample.value)

    def of(self, name: str) -> int:
        """Return a metric, NAME or NAME:LABEL."""
        metric, _, label = name.partition(":")
        return self.values[metric, label]


@dataclass(slots=True)
class Outcome:
    """What a case came to, as far as its surface knows."""

    alerts: list[dict[str, Any]] = field(default_factory=list)
    rules: frozenset[str] = frozenset()  # ids of the rules of the policies that were in force
    alarms: Alarms = field(default_factory=Alarms)
    exit: int | None = None
    memory_mb: float | None = None
    seconds: float | None = None
    history_mb: float | None = None  # on disk, with its journal

    def findings(self) -> list[tuple[str, str]]:
        """Return rule and event of every alert of a rule of the policy."""
        return [(alert["rule_id"], alert["event_id"]) for alert in self.alerts if alert["rule_id"] in self.rules]

    def told(self) -> dict[str, Any]:
        """Return what can be expected of the whole."""
        own = sorted({alert["severity"] for alert in self.alerts if alert["rule_id"] not in self.rules})
        known = {
            "findings": self.findings(),
            "own_alerts": own,
            "alarms": self.alarms,
            "exit": self.exit,
            "memory_mb": self.memory_mb,
            "seconds": self.seconds,
            "history_mb": self.history_mb,
        }
        return {name: value for name, value in known.items() if value is not None}


def complaint(expected: dict[str, Any], told: dict[str, Any]) -> str:
    """Return what is wrong with an answer; empty when it is as expected."""
    wrong = [text for name, wanted in expected.items() if name != "any_of" and (text := _complain(name, wanted, told))]
    if "any_of" in expected:
        each = [complaint(alternative, told) for alternative in expected["any_of"]]
        if all(each):
            wrong.append("none of the alternatives: " + "; or ".join(each))
    return "; ".join(wrong)


def _complain(name: str, wanted: Any, told: dict[str, Any]) -> str:
    check = _CHECKS.get(name)
    if check is None:
        raise CannotRunError(f"this runner does not know the expectation {name}")
    source = _SOURCES.get(name, name)
    if source not in told:
        return f"the answer says nothing of {name}, expected {wanted!r}"
    got = told[source]
    return "" if check(got, wanted) else f"{name}: got {_shown(name, got, wanted)}, expected {wanted!r}"


def _shown(name: str, got: Any, wanted: Any) -> str:
    if isinstance(got, Alarms):
        return repr({metric: got.of(metric) for metric in wanted})
    if name in ("shows", "shows_any", "hides") and isinstance(got, str):
        return repr(got if len(got) < 400 else got[:400] + "...")
    return repr(got)


def is_matched(found: Sequence[tuple[str, str]], wanted: Iterable[Sequence[str]], *, exactly: bool) -> bool:
    """Whether the findings are the expected ones as a multiset; ``*`` is any event."""
    rest = list(found)
    for rule, event in sorted(((str(rule), str(event)) for rule, event in wanted), key=lambda pair: pair[1] == "*"):
        match = next((one for one in rest if one[0] == rule and event in ("*", one[1])), None)
        if match is None:
            return False
        rest.remove(match)
    return not (exactly and rest)


def _is_one_of(got: Any, wanted: Any) -> bool:
    return got in (wanted if isinstance(wanted, list) else [wanted])


def _has_status(got: int, wanted: Any) -> bool:
    ways = [str(one).lower() for one in (wanted if isinstance(wanted, list) else [wanted])]
    return str(got) in ways or f"{str(got)[0]}xx" in ways


def _is_found(got: list[str], wanted: list[Any]) -> bool:
    """Whether the rules that spoke are one of the lists; a list of names is the only one."""
    ways = wanted if any(isinstance(one, list) for one in wanted) else [wanted]
    return any(sorted(got) == sorted(way) for way in ways)


def _is_within(got: float, wanted: float) -> bool:
    return got <= wanted


def _has_own_alerts(got: list[str], wanted: list[str]) -> bool:
    return got == sorted(set(wanted))


_CHECKS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    # of a step
    "action": _is_one_of,
    "checked": _is_one_of,
    "judged": _is_one_of,
    "accepted": _is_one_of,
    "ok": _is_one_of,
    "taken": _is_one_of,
    "status": _has_status,
    "found": _is_found,
    "open_at_most": _is_within,
    "shows": lambda text, wanted: all(text_of(one) in text for one in wanted),
    "shows_any": lambda text, wanted: any(text_of(one) in text for one in wanted),
    "hides": lambda text, wanted: not any(text_of(one) in text for one in wanted),
    # of the whole
    "findings": lambda got, wanted: is_matched(got, wanted, exactly=True),
    "findings_at_least": lambda got, wanted: is_matched(got, wanted, exactly=False),
    "alarms": lambda alarms, wanted: all(alarms.of(name) > 0 for name in wanted),
    "quiet": lambda alarms, wanted: all(alarms.of(name) == 0 for name in wanted),
    "own_alerts": _has_own_alerts,
    "exit": _is_one_of,
    "within": lambda got, wanted: all(got[name] <= most for name, most in wanted.items()),
}
# Where the answer to an expectation stands, when that is under another name.
_SOURCES: Final = {
    "open_at_most": "open",
    "shows": "text",
    "shows_any": "text",
    "hides": "text",
    "findings_at_least": "findings",
    "quiet": "alarms",
    "within": "limits",
}
