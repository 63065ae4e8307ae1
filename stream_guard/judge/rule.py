"""What a rule kind is: parameters, a state the engine keeps, and handlers by event.

A rule is a fold over the events of one key. Its object holds parameters only. Everything that it
must remember goes into ``state``, which the engine creates, stores, restores and passes to the handlers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from threading import Lock
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict

from stream_guard.judge.model import (
    Event,
    GateDecision,
    Hit,
    Json,
    SessionEnd,
    Shortfall,
    ToolCall,
    ToolResult,
    Turn,
    Unsure,
    UserMessage,
)
from stream_guard.judge.paths import Path

Mode: TypeAlias = Literal["inline", "stream", "batch"]
Need: TypeAlias = Literal["content", "clock"]
Where: TypeAlias = Literal["response", "tool_args", "tool_result", "user"]

Verdict: TypeAlias = Hit | Unsure | None
"""What a handler may answer; None, most of the time."""

Settled: TypeAlias = None
SETTLED: Final = None
"""What kinds answered that would find nothing more: it means the same as None."""

ALL_MODES: frozenset[Mode] = frozenset(("inline", "stream", "batch"))


class Params(BaseModel):
    """Base of a kind's parameters: what a user writes under ``params``. Unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, strict=True)


class State(msgspec.Struct, array_like=True, gc=False):
    """Base of a kind's state: fields with defaults, of plain types, small, and without cycles.

    It is stored as a bare array, so a change of its fields needs a higher ``state_version``.
    """


class NoState(State):
    """The state of a rule that remembers nothing."""


class TextPattern(msgspec.Struct, frozen=True):
    """A text a rule waits for. All rules' patterns are looked for together, in one pass over each text."""

    where: Where
    regex: str
    path: Path | None = None  # look only into the string at this path; None: into all the text of the event


class ToolFilter(Protocol):
    """Selects the tools whose events a rule sees; the answer for a name never changes."""

    @property
    def exact(self) -> frozenset[str] | None:
        """The names, when there is a closed list of them; else None."""

    def matches(self, tool: str) -> bool:
        """Whether the tool is selected."""


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One case of a kind, in the shorthand of ``stream_guard.testing``; shown in the docs and run by the tests."""

    claim: str
    params: Mapping[str, Json]
    trace: Sequence[Mapping[str, Json]]
    hits: Sequence[int | str] = ()  # positions in ``trace`` at which it fires; "end" for the end of the session


P = TypeVar("P", bound=Params)
S = TypeVar("S", bound=State)

_LOOKING_UP: Final = Lock()


def state_decoder(state_type: type[S]) -> msgspec.msgpack.Decoder[S]:
    """Return a decoder of a kind's states. Threads that load policies take turns, for the reason in ``resolved``."""
    with _LOOKING_UP:
        return msgspec.msgpack.Decoder(state_type)


class Rule(Generic[P, S]):
    """Base of every rule kind; override the handlers you need, the engine calls no others.

    The engine calls handlers in the order of the events. Before an event it calls ``on_deadline`` for deadlines that
    are due, and ``on_session_end`` once, when the scope of the state ends. A safety rule fires at the event that is
    wrong. An obligation may fire only in ``on_deadline`` or ``on_session_end``: before that, "not yet" is not "never".

    With a ``when``, handlers see the events inside the gate. ``on_ungated`` sees the others, because an event outside
    the gate may satisfy a rule.
    """

    kind: ClassVar[str] = ""
    modes: ClassVar[frozenset[Mode]] = ALL_MODES
    fires_once: ClassVar[bool] = False  # it fires once per state, or only at the end, so `for` has no meaning
    asks: ClassVar[bool] = False  # its hits have an inquiry: a judge has the last word
    equates_arguments: ClassVar[bool] = False  # equal arguments count together, so that 7 and "7" may be one
    state_version: ClassVar[int] = 1
    state_limit: ClassVar[int] = 1024  # bytes of one serialised state, for any events
    examples: ClassVar[Sequence[Example]] = ()
    params_type: ClassVar[type[Params]] = Params
    state_type: type[State] = NoState  # may differ from the kind's in a rule whose params leave nothing to remember

    params: P

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in vars(cls).get("__orig_bases__", ()):  # only its own bases: inherited ones are set already
            if isinstance(origin := get_origin(base), type) and issubclass(origin, Rule):
                params_type, state_type = get_args(base)
                if isinstance(params_type, type) and isinstance(state_type, type):
                    cls.params_type, cls.state_type = params_type, state_type

    def __init__(self, params: P) -> None:
        self.params = params

    def handlers(self) -> Collection[str] | None:
        """The handlers it needs with these params, by name; None means all that it has."""
        return None

    def tools(self) -> ToolFilter | None:
        """The tools whose calls, decisions and results the rule sees; None means all."""
        return None

    def texts(self) -> Sequence[TextPattern]:
        """Patterns to wait for. If there are some for a place, its handlers run only when one of them occurs."""
        return ()

    def needs(self) -> frozenset[Need]:
        """What an event must have to be judged; without it the result is ``unevaluable``, never a pass."""
        return frozenset()

    def goes_by_time(self) -> bool:
        """Whether a call may be judged otherwise a while later, with nothing in between."""
        return "clock" in self.needs()

    def reads_args(self) -> bool:
        """Whether the arguments of a call may decide: those that come after the call was told of are judged then."""
        return "content" in self.needs()

    def judges_responses(self) -> bool:
        """Whether what ``on_turn`` reads decides; False: it only stands beside what is judged."""
        return True

    def decided(self) -> Literal["never", "always"] | None:
        """Whether the params alone decide that the rule fires never, or in every session; None: events decide."""
        return None

    def rests_on_memory(self, call: ToolCall) -> bool:  # noqa: ARG002  # kinds look at it
        """Whether what the rule remembers decides on a call of its tools; asked where that was lost to a limit.

        Such a call is unevaluable then, unless the rule fires all the same.
        """
        return True

    def on_user_message(self, message: UserMessage, state: S) -> Verdict:
        """A person wrote something."""

    def on_turn(self, turn: Turn, state: S) -> Verdict:
        """A model answered a request."""

    def on_tool_call(self, call: ToolCall, state: S) -> Verdict:
        """A tool was attempted; nothing has run yet."""

    def on_decision(self, decision: GateDecision, state: S) -> Verdict:
        """An inline gate answered an attempt."""

    def on_tool_result(self, result: ToolResult, state: S) -> Verdict:
        """An attempt has its result: ok, error or blocked."""

    def on_ungated(self, event: Event, state: S) -> Verdict:
        """An event outside the rule's gate, of a type it has a handler for: it may satisfy, but not break the rule."""

    def deadline(self, state: S) -> float | None:
        """The event time at which to call ``on_deadline``, read after every handler."""

    def on_deadline(self, time: float, state: S) -> Hit | None:
        """The deadline has passed in event time, perhaps in a session without further events."""

    def on_session_end(self, end: SessionEnd, state: S) -> Hit | None:
        """The scope of this state is over: judge what did not happen."""

    def shortfall(self, event: Event, state: S) -> Shortfall | None:
        """What was lacking for a hit at an event that it was shown and let pass; ``state`` is the one after it.

        It is asked for explanations only, never when events are judged. None: nothing to say.
        """


RuleType: TypeAlias = type[Rule[Any, Any]]
