"""Collect the problems of one policy while it is loaded, in file order."""

from __future__ import annotations

from collections.abc import Iterable

from stream_guard.errors import Place, Problem
from stream_guard.policy.codes import Code
from stream_guard.policy.dialects import NativePolicy
from stream_guard.policy.gates import Flaw, Steps
from stream_guard.policy.message_parts import printable
from stream_guard.policy.nodes import PolicyDocument
from stream_guard.policy.translation import MAX_PROBLEMS


class ProblemReport:
    """Collects problems by their path in the native form, and finds their places in the file."""

    def __init__(self, document: PolicyDocument, already: Iterable[Problem], native: NativePolicy) -> None:
        self._document = document
        self._already = list(already)
        self._problems: list[Problem] = []
        self._native = native  # maps paths of the native form to paths in the file

    def place(self, path: Steps, *, on_key: bool = False) -> Place:
        """Return the place of a value of the native form, or of its key."""
        source = self._source(path)
        return self._document.key_place(*source) if on_key else self._document.place(*source)

    def _source(self, path: Steps) -> Steps:
        source = self._native.source(path)
        match source:
            case ("rules", int(number), *rest) if source == path and isinstance(self._document.data, list):
                return (number, *rest)  # a bare list of rules has no key above it
            case _:
                return source

    def add(
        self, path: Steps, message: str, code: Code, *, rule_id: str = "", on_key: bool = False, warning: bool = False
    ) -> None:
        """Add a problem."""
        if self.place(path) in self._document.unreadable:
            return  # the value could not be read, and has its problem already
        place = self.place(path, on_key=on_key)
        self._problems.append(Problem(place, printable(message), code.value, rule_id, warning))

    def add_flaws(self, path: Steps, flaws: Iterable[Flaw], rule_id: str = "") -> None:
        """Add the flaws inside the value at the path."""
        for flaw in flaws:
            self.add((*path, *flaw.at), flaw.message, flaw.code, rule_id=rule_id, on_key=flaw.on_key)

    @property
    def failed(self) -> bool:
        """Whether there is a problem that is more than a warning."""
        return any(not problem.warning for problem in (*self._already, *self._problems))

    def in_order(self) -> list[Problem]:
        """Return all problems in file order."""
        listed = sorted(dict.fromkeys([*self._already, *self._problems]), key=lambda problem: problem.place)
        if len(listed) <= MAX_PROBLEMS:
            return listed
        rest = f"{len(listed) - MAX_PROBLEMS} more problems are not listed; mend these first"
        return [*listed[:MAX_PROBLEMS], Problem(listed[MAX_PROBLEMS].place, rest, Code.TOO_BIG.value)]
