"""Paths from an event to a value."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, Literal, TypeAlias, TypeGuard
from zoneinfo import ZoneInfo

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from stream_guard.judge.model import Event, GateDecision, Json, ToolCall, ToolResult, Turn, UserMessage

# The years that a calendar has, less a day at either end for the zones.
_FIRST: Final = -62135510400.0
_LAST: Final = 253402214400.0
_PARTS: Final[dict[str, Callable[[datetime], int]]] = {"hour": lambda at: at.hour, "weekday": datetime.isoweekday}


def has_clock(seconds: float | None) -> bool:
    """Whether there is a time, and a calendar has it."""
    return seconds is not None and _FIRST <= seconds <= _LAST


def clock(text: str, steps: tuple[str, ...]) -> Callable[[float], int]:
    """Return what reads a time: ``time.hour`` is 0 to 23, ``time.weekday`` 1 (Monday) to 7, ``time.ZONE.hour`` there.

    Raises ValueError for a path that says something else.
    """
    *zones, part = steps or ("",)
    if part not in _PARTS or len(zones) > 1:
        raise ValueError(
            f'path "{text}" can never resolve: time has time.hour and time.weekday, in UTC, '
            "and with a zone time.Europe/Paris.hour"
        )
    zone, read = _zone(text, zones[0]) if zones else UTC, _PARTS[part]
    return lambda seconds: read(datetime.fromtimestamp(seconds, zone))


def _zone(text: str, name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError and stands below
        raise ValueError(f'path "{text}": "{name}" is not a time zone') from None
    except KeyError:
        raise ValueError(
            f'path "{text}": this machine knows no time zone "{name}"; zones are called like Europe/Paris, '
            "and come with the system or with `pip install tzdata`"
        ) from None


When: TypeAlias = Literal["turn", "user", "event"]
"""What a path is about: the turn, the user's last message, or the event itself."""


class Missing:
    """The type of ``MISSING``: no value, which is not the same as null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()

Find: TypeAlias = Callable[[Event], Any]
"""Returns a JSON value, or ``MISSING``."""


def lookup(value: Json, steps: tuple[str, ...]) -> Json | Missing:
    """Return the value at the steps, or ``MISSING`` where one of the steps does not exist."""
    for step in steps:
        if type(value) is dict:
            value = value.get(step, MISSING)
            if value is MISSING:
                return MISSING
        elif isinstance(value, list):
            # Only plain digits index a list: "-1" is a missing path, not the last element.
            if not (step.isascii() and step.isdigit()) or int(step) >= len(value):
                return MISSING
            value = value[int(step)]
        else:
            return MISSING
    return value


def _is_of_tool(event: Event) -> TypeGuard[ToolCall | ToolResult | GateDecision]:
    # By the exact type: compiled, a tuple of classes would be made for every event.
    return type(event) is ToolCall or type(event) is ToolResult or type(event) is GateDecision


def _model(event: Event) -> Json | Missing:
    if type(event) is not Turn:
        return MISSING
    request, response = event.request, event.response
    requested = request.get("model", MISSING) if type(request) is dict else MISSING
    if requested is not MISSING:
        return requested
    return response.get("model", MISSING) if type(response) is dict else MISSING


def _request(event: Event) -> Json | Missing:
    return event.request if type(event) is Turn and event.request is not None else MISSING


def _response(event: Event) -> Json | Missing:
    return event.response if type(event) is Turn else MISSING


def _stop_reason(event: Event) -> Json | Missing:
    return event.response.get("stop_reason", MISSING) if type(event) is Turn else MISSING


def _user(event: Event) -> Json | Missing:
    return {"text": event.text} if type(event) is UserMessage else MISSING


def _tool(event: Event) -> Json | Missing:
    if not _is_of_tool(event):
        return MISSING
    tool = {"name": event.tool, "args": event.args}
    if isinstance(event, ToolResult):
        tool["result"] = {"status": event.status, "output": event.output, "latency_ms": event.latency_ms}
    return tool


def _session(event: Event) -> Json | Missing:
    return {"id": event.session_id, "turn": event.index, "part": event.part}


ROOTS: Final[dict[str, tuple[When, Find]]] = {
    "request": ("turn", _request),
    "response": ("turn", _response),
    "model": ("turn", _model),
    "stop_reason": ("turn", _stop_reason),
    "user": ("user", _user),
    "tool": ("event", _tool),
    "labels": ("event", lambda event: event.labels),
    "agent": ("event", lambda event: event.agent),
    "run_id": ("event", lambda event: event.run_id),
    "session": ("event", _session),
    "time": ("event", lambda event: event.time),
}


# Fields of a turn that sources send even when they leave content out (the default of OpenTelemetry).
_ALWAYS_CAPTURED: Final = frozenset(("model", "stop_reason", "usage", "latency_ms"))


def _lacks(root: str, steps: tuple[str, ...]) -> Callable[[Event], bool] | None:
    """Return whether an event leaves out the field of the event model that a path begins with.

    None for fields that every event has, and for content, about which ``captured`` speaks. A path that breaks off
    inside a field that is there is a missing path.
    """
    if root in _LACKING:
        return _LACKING[root]
    if root == "request":
        return lambda event: type(event) is Turn and event.request is None
    if root == "response" and steps and steps[0] in _ALWAYS_CAPTURED:
        return lambda event: type(event) is Turn and event.response.get(steps[0]) is None
    if root == "tool" and steps == ("result", "latency_ms"):
        return lambda event: type(event) is ToolResult and event.latency_ms is None
    if root == "tool" and steps[:2] == ("result", "output"):
        return lacks_output
    return lacks_args if root == "tool" and steps[:1] == ("args",) else None


def _turn_without(find: Find) -> Callable[[Event], bool]:
    return lambda event: type(event) is Turn and find(event) in (MISSING, None)


_LACKING: Final[dict[str, Callable[[Event], bool]]] = {
    "model": _turn_without(_model),
    "stop_reason": _turn_without(_stop_reason),
    "time": lambda event: not has_clock(event.time),
}


def lacks_args(event: Event) -> bool:
    """Whether an attempt comes without its arguments. An attempt without any has an empty object."""
    return type(event) is ToolCall and event.args is None


def lacks_output(event: Event) -> bool:
    """Whether a result comes without what the tool returned. A tool that was blocked returned nothing."""
    return type(event) is ToolResult and event.output is None and event.status != "blocked"


class Finder:
    """Finds the value of one path. A class with a method: compiled, its call takes a tenth of a function's."""

    __slots__ = ("_start",)

    def __init__(self, start: Find) -> None:
        self._start = start

    def find(self, event: Event) -> Json | Missing:
        """Return the value at the path, or ``MISSING``."""
        return self._start(event)


class _StepFinder(Finder):
    """Finds what stands at steps below the start."""

    __slots__ = ("_steps",)

    def __init__(self, start: Find, steps: tuple[str, ...]) -> None:
        super().__init__(start)
        self._steps = steps

    def find(self, event: Event) -> Json | Missing:
        return lookup(self._start(event), self._steps)


class _EntryFinder(_StepFinder):
    """Finds an entry of the start."""

    __slots__ = ("_step",)

    def __init__(self, start: Find, steps: tuple[str, ...]) -> None:
        super().__init__(start, steps)
        self._step = steps[0]

    def find(self, event: Event) -> Json | Missing:
        value = self._start(event)
        return value.get(self._step, MISSING) if type(value) is dict else lookup(value, self._steps)


class _TurnFinder(_EntryFinder):
    """Finds a value in a request or a response, which rules read at every turn: it asks no function for the start."""

    __slots__ = ("_below", "_of_request")

    def __init__(self, start: Find, steps: tuple[str, ...]) -> None:
        super().__init__(start, steps)
        self._of_request = start is _request
        self._below = steps[1:]

    def find(self, event: Event) -> Json | Missing:
        if type(event) is not Turn:
            return MISSING
        content = event.request if self._of_request else event.response
        value = content.get(self._step, MISSING) if type(content) is dict else MISSING
        return lookup(value, self._below) if self._below and value is not MISSING else value


class _ArgumentFinder(_EntryFinder):
    """Finds an argument: what rules read most, so it asks no function for the start."""

    __slots__ = ()

    def find(self, event: Event) -> Json | Missing:
        if type(event) is ToolCall or type(event) is ToolResult or type(event) is GateDecision:
            args = event.args
            return args.get(self._step, MISSING) if type(args) is dict else lookup(args, self._steps)
        return MISSING


def _at_clock(read: Callable[[float], int]) -> Find:
    """Return what finds what the clock shows at an event."""
    return lambda event: read(event.time) if event.time is not None and has_clock(event.time) else MISSING


def _args(event: Event) -> Json | Missing:
    return event.args if _is_of_tool(event) else MISSING


def _text_of_response(event: Event) -> Json | Missing:
    return event.text if type(event) is Turn else MISSING


def _name_of_tool(event: Event) -> Json | Missing:
    return event.tool if _is_of_tool(event) else MISSING


_READ_AT_ONCE: Final[dict[tuple[str, ...], Find]] = {
    ("tool", "name"): _name_of_tool,
    ("response", "text"): _text_of_response,
}


def _finder(root: str, steps: tuple[str, ...]) -> Finder:
    """Return the fastest lookup of the path: rules read the same few paths at every event."""
    start = ROOTS[root][1]
    if root == "time":
        return Finder(_at_clock(clock(".".join((root, *steps)), steps)))
    if (root, *steps) in _READ_AT_ONCE:
        return Finder(_READ_AT_ONCE[root, *steps])
    if root == "tool" and steps[:1] == ("args",):
        start, steps = _args, steps[1:]
        if len(steps) == 1:
            return _ArgumentFinder(start, steps)
    if not steps:
        return Finder(start)
    if root in ("request", "response"):
        return _TurnFinder(start, steps)
    return _StepFinder(start, steps) if len(steps) > 1 else _EntryFinder(start, steps)


def _counts_as(event: Event) -> Json | Missing:
    return event.counts_as or event.agent


def agent_key() -> Path:
    """Return the path of a key by agent: the one that a token names, else the one that the event names."""
    path = Path("agent")
    path.finder = Finder(_counts_as)
    path.find = path.finder.find
    return path


class Path:
    """A dotted path from an event to a value, split and checked once."""

    __slots__ = ("find", "finder", "lacks", "steps", "text", "when")

    def __init__(self, text: str) -> None:
        root, *steps = text.split(".")
        if root not in ROOTS:
            raise ValueError(f'path "{text}" can never resolve: it must start with one of {", ".join(ROOTS)}')
        if not all(steps):
            raise ValueError(f'path "{text}" has an empty step')
        self.text = text
        self.steps = tuple(steps)
        self.when = ROOTS[root][0]
        self.finder = _finder(root, self.steps)
        self.find: Find = self.finder.find
        self.lacks = _lacks(root, self.steps)

    @property
    def reads_content(self) -> bool:
        """Whether the path leads into content, which a source may leave out."""
        root, steps = self.text.partition(".")[0], self.steps
        if root in {"request", "response"}:
            return not steps or steps[0] not in _ALWAYS_CAPTURED
        if root == "tool":
            return steps[:1] != ("name",) and steps[:2] not in {("result", "status"), ("result", "latency_ms")}
        return root == "user"

    def __repr__(self) -> str:
        return f"Path({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        def build(value: str) -> Path:
            try:
                return cls(value)
            except ValueError as error:
                raise PydanticCustomError("path", "{why}", {"why": str(error)}) from None

        return core_schema.no_info_after_validator_function(
            build,
            core_schema.str_schema(strict=True),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda path: path.text),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": f"^({'|'.join(ROOTS)})(\\.|$)"}
