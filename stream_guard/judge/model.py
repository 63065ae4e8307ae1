"""The values that all parts exchange: events, hits, findings, decisions, alerts.

All of them are pure values. Identity, storage and transport live elsewhere. Events are msgspec
structs because the native wire format decodes straight into them (docs/adr/0004).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum, StrEnum
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from stream_guard.judge.errors import DecodeError

# JSON as it came. ``Any`` because recursive aliases cost more at every use than they catch.
Json: TypeAlias = Any

StructT = TypeVar("StructT")


def resolved(kind: type[StructT]) -> type[StructT]:
    """Have the types of a struct looked up while its module is imported, when no other thread has it.

    msgspec looks them up when the first value is read, and a thread that reads one meanwhile crashes the process.
    Structs that are read, and those inside them, need it (tests/laws/test_struct_types.py).
    """
    msgspec.msgpack.Decoder(kind)
    return kind


RESERVED: Final = "\x00"
"""First character of every row id that is not a session's. No session id may begin with it."""


def check_session_id(session_id: str) -> None:
    """Raise DecodeError for an id that no session can have."""
    if not session_id or session_id[0] == RESERVED:
        raise DecodeError("session_id is empty or begins with a NUL character; give every event its session's id")


class Severity(IntEnum):
    """How bad a finding is. The order is the meaning."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    CRITICAL = 3

    @property
    def word(self) -> str:
        """The name as it is written in policies and alerts."""
        return self.name.lower()


class Action(IntEnum):
    """What a gate does about an attempt. The order is the precedence: the strictest wins."""

    ALLOW = 0
    PAUSE = 1
    BLOCK = 2
    TERMINATE_SESSION = 3
    # Answers only, which no rule asks for.
    MODIFY = 4  # allowed, with the arguments of the answer
    DEFER = 5  # not judged in time: ask again

    @property
    def word(self) -> str:
        """The name as it is written in policies and decisions."""
        return self.name.lower()


class Scope(StrEnum):
    """What a rule keeps one state for."""

    SESSION = "session"
    PART = "part"
    RUN = "run"

    @property
    def stored_word(self) -> str:
        """The word in digests of rules. It is that of version 1 of the policy language, so that states go on."""
        return {"session": "trace", "part": "session"}.get(self.value, self.value)


class Header(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="kind"):
    """What every event has.

    Rules see a copy, on which ``index`` and the other fields marked "stamped" have what the session knows. An event
    that comes in never changes, and what it has there is not looked at.
    """

    session_id: str
    event_id: str = ""  # unique inside the session; derived by the tracker when the source has none
    time: float | None = None  # event time in seconds since the epoch; None: the source has no clock
    trace_id: str = ""  # the recording, where that differs from the session
    run_id: str = ""  # one agent's run; a sub-agent has its own
    agent: str = ""  # name@version
    agent_path: tuple[str, ...] = ()  # ancestors from the root
    counts_as: str = ""  # under whose name limits by agent count it, where a token says so; empty: `agent`
    labels: dict[str, str] = {}
    part: str = ""  # explicit name of the user-initiated part of the session, where the source knows it
    captured: bool = True  # False: the source leaves content out (OTel's default); text rules cannot judge
    index: int = -1  # stamped: absolute index of the turn this event belongs to, -1 before the first


@resolved
class UserMessage(Header, frozen=True, kw_only=True, gc=False, tag="user_message"):
    """A person wrote something; it opens a user-initiated part of the session."""

    text: str = ""


@resolved
class Turn(Header, frozen=True, kw_only=True, gc=False, tag="turn"):
    """One request to a model and the response to it."""

    request: dict[str, Json] | None = None  # model, messages, params, tools, metadata
    response: dict[str, Json] = {}  # content (blocks), stop_reason, latency_ms, usage
    text: str = ""  # stamped: the response's text blocks joined with a newline
    tools: tuple[str, ...] = ()  # stamped: tool names of the response's tool-use blocks, in order


@resolved
class ToolCall(Header, frozen=True, kw_only=True, gc=False, tag="tool_call"):
    """An ATTEMPT at a tool, before anything ran."""

    tool: str
    call_id: str = ""
    args: Json = None  # an object; a string where the model wrote something that is not JSON
    parse_error: bool = False  # the arguments were not JSON
    contested: str = ""  # why common readers differ on what the arguments are; empty: they agree
    # Other arguments that the executor may hand to the tool; None: nothing is known of the tool's schema.
    handed: tuple[Json, ...] | None = None
    asked: bool = False  # a gate was asked with this event: it tells of no attempt that another question was about
    attempt: int = -1  # stamped: number of the attempt, unique also across sessions; its result carries the same
    before: int = 0  # stamped: how many attempts with its id, tool and arguments its session had before


@resolved
class GateDecision(Header, frozen=True, kw_only=True, gc=False, tag="decision"):
    """What an inline gate answered to an attempt."""

    action: Literal["allow", "pause", "block", "terminate_session"]
    call_id: str = ""
    tool: str = ""
    rule_ids: tuple[str, ...] = ()
    attempt: int = -1  # stamped
    args: Json = None  # stamped: the arguments of the attempt that the policy reads


@resolved
class ToolResult(Header, frozen=True, kw_only=True, gc=False, tag="tool_result"):
    """What came of an attempt."""

    call_id: str = ""
    tool: str = ""  # stamped from the attempt when the source leaves it out
    status: Literal["ok", "error", "blocked"] = "ok"
    output: Json = None
    latency_ms: float | None = None
    attempt: int = -1  # stamped: the attempt it answers, -1 when there was none
    args: Json = None  # stamped: the arguments of the attempt that the policy reads


@resolved
class SessionEnd(Header, frozen=True, kw_only=True, gc=False, tag="session_end"):
    """The session is over: said by the source, or found by the tracker."""

    reason: Literal["closed", "idle", "end_of_input"] = "closed"


Event: TypeAlias = UserMessage | Turn | ToolCall | GateDecision | ToolResult | SessionEnd

EVENT_KINDS: tuple[str, ...] = (
    "user_message",
    "turn",
    "tool_call",
    "decision",
    "tool_result",
    "session_end",
)


@resolved
class Inquiry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a rule asks a judge: whether an excerpt keeps a rule that is written in words.

    The excerpt is bounded and holds no secrets. Each line is JSON in ASCII: whatever an agent wrote is inside a string.
    """

    words: str
    excerpt: tuple[str, ...]
    tells_unanswered: bool = False  # whether it is a finding that no judge answered
    calls_per_day: int = 0  # the rule's budget
    dollars_per_day: float | None = None

    @property
    def digest(self) -> str:
        """The same for the same words and the same excerpt; an answer counts for nothing else."""
        asked = json.dumps([1, self.words, self.excerpt])
        return blake2b(asked.encode(), digest_size=16).hexdigest()


@resolved
class Hit(msgspec.Struct, frozen=True, gc=False):
    """The answer of a rule that fires: what is wrong, and why. The engine makes it a finding."""

    detail: str
    evidence: dict[str, Json] = {}
    index: int | None = None  # the turn it points at, when that is not the event's own
    followup: bool = False  # no inline gate may act on it: it depends on what is known only after the attempt
    advice: str = ""  # what would satisfy the rule, for the agent that is refused: "amount at most 100"
    inquiry: Inquiry | None = None  # what a judge has to say first; the hit stands if that says the rule is broken


@resolved
class Unsure(msgspec.Struct, frozen=True, gc=False):
    """The answer of a rule that did not fire and could not judge everything; it is counted."""

    why: Literal["type_mismatch", "unevaluable"]
    lacks: str = "something that it needs"  # what was missing, in a few words that are the same at every event
    followup: bool = False  # no inline gate may act on it: it depends on what is known only after the attempt


class Shortfall(msgspec.Struct, frozen=True, gc=False):
    """How far a rule was from a hit at an event that it let pass; for explanations only."""

    lacks: str  # what was lacking, in words: "2 of 3 calls", "amount is 96, 4 short of 100"
    share: float = 0.0  # how near it came, from 0 to 1


# What rules have against a tool call.
HIT: Final = "hit"
HELD: Final = "held"  # it fired, and its cooldown held the finding back
FAILED: Final = "failed"  # it raised an exception
UNEVALUABLE: Final = "unevaluable"
ASKED: Final = "asked"  # a judge has the last word; the text is the digest of the inquiry
CONTESTED: Final = "contested"  # of no rule: common readers differ on what the arguments are

NO_RULE: Final = -1
MOST_TEXT: Final = 2000  # characters of the text that are kept: whoever shows it takes secrets out, and cuts it


@resolved
class Objection(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One rule's word against a tool call: its number in the policy, what happened, and the reason for people.

    It stays with the call while the call is open, also after a restart.
    """

    rule: int
    cause: str
    text: str


@resolved
class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A hit, stamped by the engine with the rule, the session and the place."""

    alert_id: str  # a digest: the same finding has the same id on every path and in every replay
    rule_id: str
    slot: str  # the rule's id, made unique where a dialect lets two rules share one
    kind: str
    severity: Severity
    session_id: str
    event_id: str  # the event that decided it; at the end of a scope, the last event of the scope
    index: int | None  # absolute index of the turn, None when the session has none
    time: float | None
    detail: str
    evidence: dict[str, Json] = {}
    part: str = ""  # where a rule keeps one state per part, run or key: which one
    at: Literal["event", "deadline", "end"] = "event"
    then: Action | None = None
    reason: str = ""
    shadow: bool = False  # found by a rule in shadow mode: recorded, never sent
    tags: tuple[str, ...] = ()
    run_id: str = ""
    agent: str = ""
    labels: dict[str, str] = {}
    suppressed: int = 0  # findings of the same rule that its cooldown held back since the last one
    attempt: int = -1  # the attempt it is about, where it was made at a tool call
    followup: bool = False  # no inline gate may act on it: it depends on what is known only after the attempt
    file: str = ""  # where the record of its event stands, in recordings, where that is known
    line: int = 0
    inquiry: Inquiry | None = None  # not a finding yet: a judge is to be asked

    def __str__(self) -> str:
        return f"{self.severity.word} {self.rule_id}: {self.detail}"


@resolved
class RuleCoverage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which rules an answer to an attempt rests on, by their ids."""

    checked: tuple[str, ...] = ()
    unevaluable: tuple[str, ...] = ()  # they could not judge; `on_unevaluable` says what that means
    not_applicable: tuple[str, ...] = ()  # their kind, tools or agent leave attempts like this one out


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to one attempt: the strictest action, and everything that matched.

    ``findings`` stand in the order of the effective list: rules of the policy itself, of the root agent, and so
    on down to the agent that tries.
    """

    action: Action
    findings: tuple[Finding, ...] = ()  # what the gate acted on
    reason: str = ""
    policy_version: str = ""
    checked: bool = True  # False: the tool is not on its agent's list, so the rules of agents did not run
    session_ended: bool = False  # every later attempt of the session will be refused
    followup: tuple[Finding, ...] = ()  # found too, but nothing an inline gate may act on
    rule_ids: tuple[str, ...] = ()  # every rule that matched, failed or could not judge, acted on or not
    rules: RuleCoverage = RuleCoverage()
    advice: str = ""  # what the strictest rule found, and what would satisfy it; short and without secrets
    args: Json = None  # of modify: the arguments to run with
    modified_by: tuple[str, ...] = ()  # the rules that changed the arguments
    asked: tuple[str, ...] = ()  # digests of what a judge has not answered yet: with the answers it may be another one

    @property
    def judged(self) -> bool:
        """Whether every rule that applies could judge the attempt."""
        return self.checked and not self.rules.unevaluable

    def __str__(self) -> str:
        return f"{self.action.word}: {self.reason}" if self.reason else self.action.word


@resolved
class Alert(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A finding on its way out, with redacted excerpts instead of payloads."""

    alert_id: str
    rule_id: str
    kind: str
    severity: str
    session_id: str
    event_id: str
    index: int | None
    time: float | None
    detail: str
    policy_version: str
    evidence: Mapping[str, Json] = {}
    part: str = ""
    at: str = "event"
    reason: str = ""
    tags: tuple[str, ...] = ()
    run_id: str = ""
    agent: str = ""
    labels: dict[str, str] = {}
    suppressed: int = 0
    file: str = ""  # where the record of its event stands, in recordings
    line: int = 0
    shadow: bool = False  # of a rule in shadow mode: told where it is asked for, never sent
