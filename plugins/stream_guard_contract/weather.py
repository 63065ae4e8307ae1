"""What was broken in a scenario: what it declares, what the recordings show, and whether the two agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

from stream_guard.model import ToolResult
from stream_guard_contract.forms import Scenario, ToolFault, When
from stream_guard_contract.labels import SORTS, Fault, FaultMet, declared
from stream_guard_contract.matrix import Exercised, ScenarioReport
from stream_guard_contract.recorded import Recorded, calls_tools

Sighting: TypeAlias = Literal["met", "not met", "unknown"]

_HOLDS: Final[dict[str, Callable[[frozenset[str]], bool]]] = {
    "tool_faults_active": lambda broken: "tool_faults" in broken,
    "llm_faults_active": lambda broken: "llm_faults" in broken,
    "any_chaos_active": bool,
    "no_chaos": lambda broken: not broken,
}
_SORTS_OF: Final[dict[str, tuple[str, ...]]] = {
    "tool_faults_active": ("tool_faults",),
    "llm_faults_active": ("llm_faults",),
}
_ABOUT_FAULTS: Final = frozenset(("tool_faults_active", "llm_faults_active", "any_chaos_active"))
_SHOWS_AS_ERROR: Final = frozenset(("error", "timeout"))


class Weather:
    """One scenario and the sessions that were recorded under it."""

    def __init__(self, scenario: Scenario, sessions: Sequence[Recorded]) -> None:
        self.scenario = scenario
        self.sessions = sessions
        self._seen = {fault: _sighting(fault, form, sessions) for fault, form in declared(scenario)}
        self._calm: dict[tuple[str, str], bool] = {}
        self._exercised: dict[str, Exercised] = {}
        self._broken = frozenset[str](fault.sort for fault in self._seen)

    def holds(self, when: When, session: Recorded | None = None) -> bool:
        """Whether an invariant is asked about here: faults that the session shows count like declared ones."""
        return when == "always" or _HOLDS[when](self._broken | session.sorts_met if session else self._broken)

    def is_known_calm(self, when: When, session: Recorded) -> bool:
        """Whether the invariant is about faults, and the session shows that none of them reached the agent in it."""
        if when not in _ABOUT_FAULTS:
            return False
        key = when, session.session_id
        if key not in self._calm:
            sorts = _SORTS_OF.get(when, SORTS)
            faults = [(fault, form) for fault, form in declared(self.scenario) if fault.sort in sorts]
            told = all(_sighting(fault, form, (session,)) == "not met" for fault, form in faults)
            self._calm[key] = told and not session.sorts_met & set(sorts)
        return self._calm[key]

    def exercised(self, when: When = "always") -> Exercised:
        """Return whether what an invariant with this ``when`` is about reached the agent."""
        if when not in self._exercised:
            self._exercised[when] = self._look(_SORTS_OF.get(when, SORTS))
        return self._exercised[when]

    def _look(self, sorts: Sequence[str]) -> Exercised:
        seen = [sighting for fault, sighting in self._seen.items() if fault.sort in sorts]
        if not seen:
            return "calm"
        if "met" in seen:
            return "yes"
        return "unknown" if "unknown" in seen else "no"

    def report(self) -> ScenarioReport:
        """Return what is to be said about the scenario."""
        return ScenarioReport(
            name=self.scenario.name,
            sessions=len(self.sessions),
            exercised=self.exercised(),
            declared=tuple(map(str, self._seen)),
            not_met=tuple(str(fault) for fault, sighting in self._seen.items() if sighting == "not met"),
        )


def _sighting(fault: FaultMet, form: Fault, sessions: Sequence[Recorded]) -> Sighting:
    """Return whether the agent met the fault, as far as the recordings tell."""
    if any((met.sort, met.number) == (fault.sort, fault.number) for one in sessions for met in one.labels.faults):
        return "met"
    if not sessions:
        return "unknown"
    blind = [session for session in sessions if fault.sort not in session.labels.watched]
    if not blind:
        return "not met"
    return _tool_sighting(form, blind) if isinstance(form, ToolFault) else "unknown"


def _tool_sighting(fault: ToolFault, sessions: Sequence[Recorded]) -> Sighting:
    """Recordings that nobody labelled may still show that a tool failed, or that it was never called."""
    if not all(map(calls_tools, sessions)):
        return "unknown"
    results = [
        event
        for session in sessions
        for event in session.events
        if isinstance(event, ToolResult) and fnmatchcase(event.tool, fault.tool)
    ]
    if not results:
        return "not met"
    if fault.mode not in _SHOWS_AS_ERROR:
        return "unknown"
    return "met" if any(result.status == "error" for result in results) else "not met"
