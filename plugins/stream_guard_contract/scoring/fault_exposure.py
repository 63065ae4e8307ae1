"""Whether the agent met the faults of a scenario: what the scenario declares, and what the recordings show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

from stream_guard import ToolResult
from stream_guard_contract.document.sections import Scenario, ToolFault, When
from stream_guard_contract.recording.labels import FAULT_CATEGORIES, Fault, FaultId, declared_faults
from stream_guard_contract.recording.session_reader import RecordedSession, calls_tools
from stream_guard_contract.scoring.matrix import Exercised, ScenarioReport

Exposure: TypeAlias = Literal["met", "not met", "unknown"]

_WHEN_HOLDS: Final[dict[str, Callable[[frozenset[str]], bool]]] = {
    "tool_faults_active": lambda categories: "tool_faults" in categories,
    "llm_faults_active": lambda categories: "llm_faults" in categories,
    "any_chaos_active": bool,
    "no_chaos": lambda categories: not categories,
}
_CATEGORIES_OF: Final[dict[str, tuple[str, ...]]] = {
    "tool_faults_active": ("tool_faults",),
    "llm_faults_active": ("llm_faults",),
}
_ABOUT_FAULTS: Final = frozenset(("tool_faults_active", "llm_faults_active", "any_chaos_active"))
_ENDS_IN_ERROR: Final = frozenset(("error", "timeout"))


class FaultExposure:
    """One scenario, its recorded sessions, and which of its declared faults the agent met in them."""

    def __init__(self, scenario: Scenario, sessions: Sequence[RecordedSession]) -> None:
        self.scenario = scenario
        self.name = scenario.name
        self.sessions = sessions
        self._exposures = {
            fault_id: _exposure(fault_id, fault, sessions) for fault_id, fault in declared_faults(scenario)
        }
        self._unexposed: dict[tuple[str, str], bool] = {}
        self._exercised: dict[str, Exercised] = {}
        self._declared: frozenset[str] = frozenset([fault_id.category for fault_id in self._exposures])

    def holds(self, when: When, session: RecordedSession | None = None) -> bool:
        """Whether ``when`` holds in the scenario; faults that the session shows count like declared ones."""
        if when == "always":
            return True
        return _WHEN_HOLDS[when](self._declared | session.categories_met if session else self._declared)

    def is_unexposed(self, when: When, session: RecordedSession) -> bool:
        """Whether ``when`` is about faults, and the session proves that the agent met none of them."""
        if when not in _ABOUT_FAULTS:
            return False
        key = when, session.session_id
        if key not in self._unexposed:
            categories = _CATEGORIES_OF.get(when, FAULT_CATEGORIES)
            faults = [item for item in declared_faults(self.scenario) if item[0].category in categories]
            none_met = all(_exposure(fault_id, fault, (session,)) == "not met" for fault_id, fault in faults)
            self._unexposed[key] = none_met and not session.categories_met & set(categories)
        return self._unexposed[key]

    def exercised(self, when: When = "always") -> Exercised:
        """Return whether the faults that ``when`` is about reached the agent."""
        if when not in self._exercised:
            self._exercised[when] = self._exercised_in(_CATEGORIES_OF.get(when, FAULT_CATEGORIES))
        return self._exercised[when]

    def _exercised_in(self, categories: Sequence[str]) -> Exercised:
        exposures = [exposure for fault_id, exposure in self._exposures.items() if fault_id.category in categories]
        if not exposures:
            return "calm"
        if "met" in exposures:
            return "yes"
        return "unknown" if "unknown" in exposures else "no"

    def report(self) -> ScenarioReport:
        """Return the scenario's entry in the matrix."""
        return ScenarioReport(
            name=self.name,
            sessions=len(self.sessions),
            exercised=self.exercised(),
            declared=tuple(map(str, self._exposures)),
            not_met=tuple(str(fault_id) for fault_id, exposure in self._exposures.items() if exposure == "not met"),
        )


def _exposure(fault_id: FaultId, fault: Fault, sessions: Sequence[RecordedSession]) -> Exposure:
    """Return whether the agent met the fault, as far as the recordings show."""
    identity = fault_id.category, fault_id.number
    if any((met.category, met.number) == identity for session in sessions for met in session.labels.faults):
        return "met"
    if not sessions:
        return "unknown"
    unwatched = [session for session in sessions if fault_id.category not in session.labels.watched]
    if not unwatched:
        return "not met"
    return _unlabelled_exposure(fault, unwatched) if isinstance(fault, ToolFault) else "unknown"


def _unlabelled_exposure(fault: ToolFault, sessions: Sequence[RecordedSession]) -> Exposure:
    """Return the exposure to a tool fault from the tool results alone, for sessions without fault labels."""
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
    if fault.mode not in _ENDS_IN_ERROR:
        return "unknown"
    return "met" if any(result.status == "error" for result in results) else "not met"
