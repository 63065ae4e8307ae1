"""What a first question about a call that was told of before is judged by: who asks, and how much later."""

from __future__ import annotations

from collections.abc import Sequence

from stream_guard.judge.bound import BoundRule, key_path, key_text
from stream_guard.judge.cross_session import by_key
from stream_guard.judge.index import Index
from stream_guard.judge.model import Event, Scope
from stream_guard.judge.paths import MISSING
from stream_guard.judge.spec import RuleSpec


class LateQuestions:
    """Of rules that stop: those that judge a call otherwise a while later, and what their keys tell callers by."""

    __slots__ = ("_paths", "across", "local")

    def __init__(self, active: Sequence[BoundRule], *, by_tenant: bool) -> None:
        stopping = [bound for bound in active if bound.spec.stops]
        timed = [bound for bound in stopping if bound.rule.goes_by_time()]
        self.local = Index([bound for bound in timed if "session" in bound.spec.key])
        self.across = tuple(by_key(timed, by_tenant=by_tenant))
        parts = {part: None for bound in stopping for part in _caller_parts(bound.spec)}
        self._paths = [key_path(part) for part in parts]

    @property
    def tells_callers(self) -> bool:
        """Whether two callers' events may count apart."""
        return bool(self._paths)

    def whose(self, event: Event) -> tuple[str, ...]:
        """Return the values by which keys tell one caller's events from another's."""
        found = [path.find(event) for path in self._paths]
        return tuple(["" if value is MISSING or value is None else key_text(value) for value in found])


def _caller_parts(spec: RuleSpec) -> list[str]:
    """Return the parts of a rule's key that say whose an event is: the others are the same for the same call."""
    parts = [part for part in spec.key if part in ("agent", "run") or part.startswith("labels.")]
    return [*parts, "run"] if spec.scope is Scope.RUN else parts
