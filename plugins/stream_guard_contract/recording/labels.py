"""The labels of a recorded session: its scenario, its prompt, and the faults that the agent met.

A session is one prompt under one scenario. A label may stand on one event of the session or on all.

| label | meaning |
|---|---|
| ``scenario`` | the name of the scenario; required |
| ``contract_prompt`` | the golden prompt or the probe; without it, the text of the first user message |
| ``contract_repetition`` | the number of the repetition, where one prompt is asked several times |
| ``contract_invariant`` | the only invariant that the session counts for; without it, all that ask this prompt |
| ``contract_baseline`` | ``true``: recorded without faults before the matrix, to compare with; it is not judged |
| ``contract_watched`` | the fault categories that the recorder would have noticed: ``tool_faults,llm_faults`` |
| ``contract_fault`` | on the event at which the agent met a fault: the fault, as ``FaultId`` writes it |
| ``contract_timeout`` | ``true``: the agent did not answer in time |
| ``contract_role`` | on a turn: ``answer`` for the agent's final answer, ``model`` for one call of a model |

A tool fault is labelled on the tool result, a model fault on the model's turn, and a context attack on the event with
the injected text: a user message, a tool result or a model's turn. A failed answer is a turn whose ``response`` has
``stop_reason: error`` and the reason as ``error``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from stream_guard import Event, ToolResult, UserMessage
from stream_guard_contract.document.sections import ContextAttack, LlmFault, Scenario, ToolFault

SCENARIO: Final = "scenario"
PROMPT: Final = "contract_prompt"
REPETITION: Final = "contract_repetition"
INVARIANT: Final = "contract_invariant"
BASELINE: Final = "contract_baseline"
WATCHED: Final = "contract_watched"
FAULT: Final = "contract_fault"
ROLE: Final = "contract_role"
TIMEOUT: Final = "contract_timeout"
ATTACKED: Final = "contract_attacked"  # added to answers when sessions are read: whether a context attack was on
ANSWER: Final = "answer"
MODEL: Final = "model"
TRUE: Final = "true"

FaultCategory: TypeAlias = Literal["tool_faults", "llm_faults", "context_attacks"]
FAULT_CATEGORIES: Final[tuple[FaultCategory, ...]] = get_args(FaultCategory)
Fault: TypeAlias = ToolFault | LlmFault | ContextAttack


class FaultId(NamedTuple):
    """The identity of a fault in its scenario: the category, the index in that list, and the mode or type."""

    category: FaultCategory
    number: int
    mode: str

    def __str__(self) -> str:
        return f"{self.category}/{self.number}/{self.mode}"


def declared_faults(scenario: Scenario) -> list[tuple[FaultId, Fault]]:
    """Return every fault of the scenario with its id."""
    return [
        *((FaultId("tool_faults", number, fault.mode), fault) for number, fault in enumerate(scenario.tool_faults)),
        *((FaultId("llm_faults", number, fault.mode), fault) for number, fault in enumerate(scenario.llm_faults)),
        *(
            (FaultId("context_attacks", number, fault.type), fault)
            for number, fault in enumerate(scenario.context_attacks)
        ),
    ]


def write_faults(faults: Iterable[FaultId]) -> str:
    """Return the value of ``contract_fault`` for an event that met these faults."""
    return ",".join(str(fault) for fault in sorted(set(faults)))


@lru_cache(maxsize=1024)
def read_faults(value: str) -> frozenset[FaultId]:
    """Return the faults in a value of ``contract_fault``; malformed parts are ignored."""
    found = set()
    for part in value.split(","):
        category, _, rest = part.strip().partition("/")
        number, _, mode = rest.partition("/")
        if category in FAULT_CATEGORIES and number.isdecimal() and len(number) < 10:
            found.add(FaultId(category, int(number), mode))
    return frozenset(found)


@lru_cache(maxsize=1024)
def _read_watched(value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(",") if part.strip())


class SessionLabels(msgspec.Struct, frozen=True):
    """The labels of one recorded session, read from all its events."""

    scenario: str
    prompt: str
    repetition: str = ""
    invariant: str = ""
    is_baseline: bool = False
    is_overdue: bool = False
    watched: frozenset[str] = frozenset()
    faults: frozenset[FaultId] = frozenset()
    conflict: str = ""  # a label that has two different values in the session


def read_labels(events: Sequence[Event]) -> SessionLabels:
    """Return the labels of one session; the first event with a label decides its value."""
    first: dict[str, str] = {}
    conflict = ""
    faults: set[FaultId] = set()
    for event in events:
        for name, value in event.labels.items():
            if name == FAULT:
                faults |= read_faults(value)
            elif first.setdefault(name, value) != value and name in (SCENARIO, PROMPT, INVARIANT, BASELINE):
                conflict = conflict or name
    prompt = first.get(PROMPT)
    if prompt is None:
        asked = [event.text for event in events if isinstance(event, UserMessage)]
        prompt = asked[0] if asked else ""
    return SessionLabels(
        scenario=first.get(SCENARIO, ""),
        prompt=prompt,
        repetition=first.get(REPETITION, ""),
        invariant=first.get(INVARIANT, ""),
        is_baseline=first.get(BASELINE) == TRUE,
        is_overdue=first.get(TIMEOUT) == TRUE,
        watched=_read_watched(first.get(WATCHED, "")),
        faults=frozenset(faults),
        conflict=conflict,
    )


def shows_tool_fault(event: Event) -> bool:
    """Whether a tool failed here, labelled or not; a call that a gate blocked is no fault."""
    return type(event) is ToolResult and event.status == "error"
