"""Recorded sessions of a contract: their labels, how they are written, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec.structs import astuple, replace

from stream_guard import (
    Decoder,
    Event,
    Json,
    Record,
    SettingsError,
    SourceError,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
    parse_json,
)
from stream_guard_contract.document import ContextAttack, LlmFault, Scenario, ToolFault

# The labels of a recorded session: its scenario, its prompt, and the faults that the agent met.
#
# A session is one prompt under one scenario. A label may stand on one event of the session or on all.
#
# | label | meaning |
# |---|---|
# | ``scenario`` | the name of the scenario; required |
# | ``contract_prompt`` | the golden prompt or the probe; without it, the text of the first user message |
# | ``contract_repetition`` | the number of the repetition, where one prompt is asked several times |
# | ``contract_invariant`` | the only invariant that the session counts for; without it, all that ask this prompt |
# | ``contract_baseline`` | ``true``: recorded without faults before the matrix, to compare with; it is not judged |
# | ``contract_watched`` | the fault categories that the recorder would have noticed: ``tool_faults,llm_faults`` |
# | ``contract_fault`` | on the event at which the agent met a fault: the fault, as ``FaultId`` writes it |
# | ``contract_timeout`` | ``true``: the agent did not answer in time |
# | ``contract_role`` | on a turn: ``answer`` for the agent's final answer, ``model`` for one call of a model |
#
# A tool fault is labelled on the tool result, a model fault on the model's turn, and a context attack on the event with
# the injected text: a user message, a tool result or a model's turn. A failed answer is a turn whose ``response`` has
# ``stop_reason: error`` and the reason as ``error``.

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


# Writes recorded sessions as native JSON lines, and reads those lines back.

MAX_TEXT: Final = 200_000  # characters of one text; a longer one is cut and marked
_MAX_VALUE: Final = 1_000_000  # bytes of one JSON value


def clean(text: str) -> str:
    """Return the text as valid UTF-8 of bounded length."""
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]} [{len(text) - MAX_TEXT} characters cut]"
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return text.encode("utf-8", "replace").decode()
    return text


def storable(value: Any) -> Json:
    """Return the value as it is read back from the recording: JSON unchanged, anything else as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    try:
        encoded = _ENCODER.encode(value)
        if len(encoded) <= _MAX_VALUE:
            return parse_json(encoded)
    except (ValueError, TypeError, RecursionError):  # UnicodeEncodeError is a ValueError
        pass
    return clean(as_text(value))


def is_storable(value: Json) -> bool:
    """Whether a value that is JSON is read back unchanged: valid UTF-8, and not too large."""
    try:
        return len(_ENCODER.encode(value)) <= _MAX_VALUE
    except (ValueError, TypeError, RecursionError):  # as in storable
        return False


def as_text(value: Any) -> str:
    """Return any value as text: as JSON, or else as ``str`` gives it."""
    try:
        return json.dumps(value, default=str)
    except (ValueError, TypeError, RecursionError):
        pass
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # an object of the agent's: its __str__ may raise anything
        return f"<{type(value).__name__}>"


def encode_events(events: Iterable[Event]) -> bytes:
    """Return events as lines of the native format; fields with their default value are left out for readability."""
    return _ENCODER.encode_lines([_WRITTEN[type(event)](*astuple(event)) for event in events])


def decode_events(lines: bytes, decoder: Decoder, origin: str) -> list[Event]:
    """Return the events of recorded lines, with the same result as ``decoder``, the native decoder."""
    events = _DECODER.decode_lines(lines)
    if not any(type(event) is ToolCall and type(event.args) is str for event in events):
        return events
    # Arguments that are a string may hold JSON: only the decoder handles that.
    return [
        event
        for number, line in enumerate(lines.splitlines(keepends=True), 1)
        for event in decoder.decode(Record(value=line, origin=origin, line=number))
    ]


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[Event]] = msgspec.json.Decoder(Event)


def _written(kind: type[Event]) -> Callable[..., msgspec.Struct]:
    """Return a struct with the fields of a kind of event, in their order, that is written without its defaults."""
    fields = []
    for field in msgspec.structs.fields(kind):
        default = None if field.required else field.default  # what is required is never None
        if field.default_factory is not msgspec.NODEFAULT:
            default = msgspec.field(default_factory=field.default_factory)
        fields.append((field.name, Any, default))
    config = kind.__struct_config__
    return msgspec.defstruct(kind.__name__, fields, tag_field=config.tag_field, tag=config.tag, omit_defaults=True)


_WRITTEN: Final = {kind: _written(kind) for kind in get_args(Event)}


class TraceFile:
    """A new file of recorded sessions; an existing file is refused, so that two runs never mix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("xb")
        except FileExistsError:
            raise SettingsError(
                f"{path} is there already; name a new file, so that two runs do not mix in one"
            ) from None
        except OSError as error:
            raise SettingsError(f"cannot write {path}: {error.strerror}") from None

    def write(self, sessions: Sequence[bytes]) -> None:
        """Append sessions; SourceError where they cannot be written, such as on a full disk."""
        try:
            self._file.writelines(sessions)
            self._file.flush()
        except OSError as error:
            raise SourceError(f"cannot write {self.path}: {error.strerror}") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


# Reads recorded sessions for scoring: the labels, the turn that is the answer, and the faults that were met.

_ROLES: Final = frozenset((ANSWER, MODEL))


class RecordedSession(msgspec.Struct, frozen=True):
    """One recorded session: a prompt under a scenario, with its events."""

    session_id: str
    events: tuple[Event, ...]  # the answer is labelled with its role, its prompt, and whether the agent was attacked
    labels: SessionLabels
    answer: Turn | None
    categories_met: frozenset[str]  # of the faults that its events show, injected or not

    @property
    def text(self) -> str:
        """The text of the agent's answer; empty where there is none."""
        return "" if self.answer is None else answer_text(self.answer)


def read_sessions(events: Iterable[Event], attacked: Set[str] = frozenset()) -> list[RecordedSession]:
    """Return the sessions of the events, in the order of their first events.

    ``attacked`` are the names of scenarios with context attacks.
    """
    grouped: dict[str, list[Event]] = {}
    for event in events:
        grouped.setdefault(event.session_id, []).append(event)
    return [_read(session_id, grouped[session_id], attacked) for session_id in grouped]


def _read(session_id: str, events: list[Event], attacked: Set[str]) -> RecordedSession:
    labels = read_labels(events)
    met: set[str] = {fault.category for fault in labels.faults}
    is_attacked = "context_attacks" in met or labels.scenario in attacked
    stamps = {ROLE: ANSWER, PROMPT: labels.prompt, ATTACKED: "true" if is_attacked else "false"}
    # By the exact type: to tell that a struct is no instance of a class takes longer.
    turns = [number for number, event in enumerate(events) if type(event) is Turn]
    answers = [number for number in turns if events[number].labels.get(ROLE) == ANSWER]
    if not answers and not any(events[number].labels.get(ROLE) in _ROLES for number in turns):
        answers = turns[-1:]  # without roles, the last turn is the answer
    for number in answers:
        events[number] = replace(events[number], labels={**events[number].labels, **stamps})
    answer = events[answers[-1]] if answers else None
    if any(shows_tool_fault(event) for event in events):
        met.add("tool_faults")
    return RecordedSession(session_id, tuple(events), labels, answer if type(answer) is Turn else None, frozenset(met))


def answer_text(turn: Turn) -> str:
    """Return the text of a turn as rules see it: its text blocks, joined by line breaks."""
    content = turn.response.get("content")
    if isinstance(content, str):
        return content
    texts = (block.get("text") for block in _blocks(turn) if block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def calls_tools(session: RecordedSession) -> bool:
    """Whether the recording contains any tool call."""
    return any(
        isinstance(event, ToolCall | ToolResult)
        or (isinstance(event, Turn) and any(block.get("type") == "tool_use" for block in _blocks(event)))
        for event in session.events
    )


def _blocks(turn: Turn) -> list[dict[str, Json]]:
    content = turn.response.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
