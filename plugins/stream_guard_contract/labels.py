"""What the events of a recorded session say about the cell of the matrix they belong to.

A session is one prompt under one scenario. Labels on its events say so; each may stand on one event or on all.

| label | says |
|---|---|
| ``scenario`` | the name of the scenario; every session of a contract needs it, on one event at least |
| ``contract_prompt`` | the golden prompt or the probe; without it, the text of the first user message |
| ``contract_repetition`` | the number of the repetition, where one prompt is asked several times |
| ``contract_invariant`` | the invariant it was recorded for; without it, for all that ask this prompt |
| ``contract_baseline`` | ``true``: recorded in calm weather before the matrix; it is compared with, not judged |
| ``contract_watched`` | the sorts of fault the recorder would have seen, with commas: ``tool_faults,llm_faults`` |
| ``contract_fault`` | on the event at which the agent met a fault: which one, as ``FaultMet`` writes it |
| ``contract_role`` | on a turn: ``answer`` for what the agent answered in the end, ``model`` for one call of a model |

The event of a tool fault is the tool result, that of a model fault the model's turn, that of a context attack the
event that carries the text: a user message, a tool result or a model's turn. An answer that failed is a turn whose
``response`` has ``stop_reason: error`` and the reason as ``error``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from stream_guard.model import Event, ToolResult, UserMessage
from stream_guard_contract.forms import ContextAttack, LlmFault, Scenario, ToolFault

SCENARIO: Final = "scenario"
PROMPT: Final = "contract_prompt"
REPETITION: Final = "contract_repetition"
INVARIANT: Final = "contract_invariant"
BASELINE: Final = "contract_baseline"
WATCHED: Final = "contract_watched"
FAULT: Final = "contract_fault"
ROLE: Final = "contract_role"
ATTACKED: Final = "contract_attacked"  # put on answers by scoring: whether the prompt may not be the user's own
ANSWER: Final = "answer"
MODEL: Final = "model"
TRUE: Final = "true"

Sort: TypeAlias = Literal["tool_faults", "llm_faults", "context_attacks"]
SORTS: Final[tuple[Sort, ...]] = get_args(Sort)
Fault: TypeAlias = ToolFault | LlmFault | ContextAttack


class FaultMet(NamedTuple):
    """One fault of a scenario: its sort, its number in the list (from 0), and its mode or type."""

    sort: Sort
    number: int
    mode: str

    def __str__(self) -> str:
        return f"{self.sort}/{self.number}/{self.mode}"


def declared(scenario: Scenario) -> list[tuple[FaultMet, Fault]]:
    """Return every fault of the scenario with what an event says that met it."""
    return [
        *((FaultMet("tool_faults", number, fault.mode), fault) for number, fault in enumerate(scenario.tool_faults)),
        *((FaultMet("llm_faults", number, fault.mode), fault) for number, fault in enumerate(scenario.llm_faults)),
        *(
            (FaultMet("context_attacks", number, fault.type), fault)
            for number, fault in enumerate(scenario.context_attacks)
        ),
    ]


def write_faults(faults: Iterable[FaultMet]) -> str:
    """Return the value of ``contract_fault`` for an event that met these."""
    return ",".join(str(fault) for fault in sorted(set(faults)))


@lru_cache(maxsize=1024)
def read_faults(value: str) -> frozenset[FaultMet]:
    """Return the faults that a value of ``contract_fault`` names; what it does not name rightly is left out."""
    found = set()
    for part in value.split(","):
        sort, _, rest = part.strip().partition("/")
        number, _, mode = rest.partition("/")
        if sort in SORTS and number.isdecimal() and len(number) < 10:
            found.add(FaultMet(sort, int(number), mode))
    return frozenset(found)


@lru_cache(maxsize=1024)
def _read_watched(value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(",") if part.strip())


class SessionLabels(msgspec.Struct, frozen=True):
    """What the labels of one recorded session say."""

    scenario: str
    prompt: str
    repetition: str = ""
    invariant: str = ""
    is_baseline: bool = False
    watched: frozenset[str] = frozenset()
    faults: frozenset[FaultMet] = frozenset()
    conflict: str = ""  # what two of its events contradict each other in


def read_labels(events: Sequence[Event]) -> SessionLabels:
    """Return what the events of one session say; the first event that speaks of something decides it."""
    said: dict[str, str] = {}
    conflict = ""
    faults: set[FaultMet] = set()
    for event in events:
        for name, value in event.labels.items():
            if name == FAULT:
                faults |= read_faults(value)
            elif said.setdefault(name, value) != value and name in (SCENARIO, PROMPT, INVARIANT, BASELINE):
                conflict = conflict or name
    prompt = said.get(PROMPT)
    if prompt is None:
        prompt = next((event.text for event in events if isinstance(event, UserMessage)), "")
    return SessionLabels(
        scenario=said.get(SCENARIO, ""),
        prompt=prompt,
        repetition=said.get(REPETITION, ""),
        invariant=said.get(INVARIANT, ""),
        is_baseline=said.get(BASELINE) == TRUE,
        watched=_read_watched(said.get(WATCHED, "")),
        faults=frozenset(faults),
        conflict=conflict,
    )


def shows_tool_fault(event: Event) -> bool:
    """Whether a tool failed here, told or not: an error counts as a fault, a refusal by a gate does not."""
    return isinstance(event, ToolResult) and event.status == "error"
