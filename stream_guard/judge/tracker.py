"""The tracker: turns raw events into the events that rules see.

It counts one attempt once, pairs a result with its call, gives every event the index of its turn, and splits a
session into the parts that a user began. A message without a text is marked as not captured. Events without a rule
only update the session. An event that came in stays as it is: rules see copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from stream_guard.judge.arguments import UNREAD, Arguments, is_deep, learn, read_arguments, read_call, with_handed
from stream_guard.judge.counts import Counts
from stream_guard.judge.findings import Findings, Objections, contested_finding, lookalike_finding
from stream_guard.judge.fold import Engine
from stream_guard.judge.identity import args_digest, canonical, count_attempt, derived_id
from stream_guard.judge.index import CrossSessionRules, LateQuestions, Plan
from stream_guard.judge.json_values import json_equal, written_alike
from stream_guard.judge.limits import FRESH
from stream_guard.judge.model import (
    CONTESTED,
    MOST_TEXT,
    NO_RULE,
    Action,
    Event,
    Finding,
    GateDecision,
    Json,
    Objection,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from stream_guard.judge.names import SeenName
from stream_guard.judge.session import LARGE, OpenCall, Session, Wanted, excerpt

# Stop reasons of a model that waits for a tool: its answer is still to come.
_CONTINUES: Final = ("tool_use", "tool_calls")  # a tuple: the reason may be a list, which has no hash


ShowAcross: TypeAlias = Callable[[Event, Session, Findings, Objections | None, tuple[CrossSessionRules, ...]], None]
"""Runs rules whose key spans sessions over an event."""


class Judged:
    """What came of one event."""

    __slots__ = ("findings",)

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = findings

    @property
    def counted(self) -> ToolCall | None:
        """A tool call with the number of the attempt that it was counted as; None for any other event."""
        return None

    @property
    def objections(self) -> tuple[Objection, ...]:
        """What rules have against the attempt."""
        return ()


class Counted(Judged):
    """What came of a tool call, or of a question about one: the attempt that it was counted as."""

    __slots__ = ("asked_again", "call", "is_repeat", "opened")

    def __init__(
        self,
        findings: Sequence[Finding],
        call: ToolCall,
        opened: OpenCall,
        *,
        is_repeat: bool = False,
        asked_again: bool = False,
    ) -> None:
        self.findings = findings
        self.call = call  # as it came, or with its number
        self.opened = opened  # the attempt that it is; what rules have against it stays there
        # The attempt was known already, from an earlier event or from the turn that announced it.
        self.is_repeat = is_repeat
        self.asked_again = asked_again  # a gate was asked about it before, and this is the same question

    @property
    def counted(self) -> ToolCall:
        """The call with its number; its tool has the name that was written."""
        return stamped_call(self.call, self.opened) if self.is_repeat else self.call

    @property
    def objections(self) -> tuple[Objection, ...]:
        """What rules have against the attempt."""
        return self.opened.objections or ()


class Tracker:
    """Applies events to sessions in order, and runs the engine over them.

    The caller has dropped duplicates and restored the order.
    """

    def __init__(
        self,
        engine: Engine,
        counts: Counts,
        show_across: ShowAcross | None,
        *,
        max_open_calls: int = 256,
    ) -> None:
        self._engine = engine
        self._counts = counts
        self._show_across = show_across
        self._judges_parts = engine.judges_parts
        self._max_open_calls = max_open_calls
        self._names = engine.names
        self._derived = engine.derived or None
        self._tools = counts.tools
        self.named: Callable[[Event, str], None] | None = None  # is told the id of each event that came without one
        self._late = engine.late
        self._idle = engine.policy.idle
        self._tells_callers = engine.late.tells_callers
        # A guard knows what it answered. An agent that tells of a refusal may have run the call.
        self._takes_answers = not engine.is_inline
        # Made once: every call that may be known is asked with one of them.
        self._lenient = _Leniency(later=not engine.is_inline, earlier=True)
        self._strict = _Leniency(later=not engine.is_inline, earlier=False)

    def apply(self, event: Event, session: Session, out: Findings) -> Counted | None:
        """Apply an event other than the end of its session, and return what a tool call was counted as."""
        session.seq += 1
        event_id, part = event.event_id, event.part
        if not event_id or event_id[0] == "~":
            event = self._name(event, session)
            event_id = event.event_id
        if part and part != session.explicit_part:
            self.begin_part(session, out, name=part)
        counted: Counted | None = None
        if type(event) is Turn:
            self._turn(event, session, out)
        elif type(event) is ToolCall:
            counted = self._tool_call(event, session, out)
        elif type(event) is ToolResult:
            self._tool_result(event, session, out)
        elif type(event) is UserMessage:
            self._user_message(event, session, out)
        elif type(event) is GateDecision:
            self._decision(event, session, out)
        session.last_event_id, session.last_run_id = event_id, event.run_id
        session.last_agent, session.last_labels = event.agent, event.labels
        return counted

    def _name(self, event: Event, session: Session) -> Event:
        """Return an event that came without an id under one that a replay repeats."""
        given_id = derived_id(event, session.lasting.told)
        if self.named is not None:
            self.named(event, given_id)
        return replace(event, event_id=given_id)

    def begin_part(self, session: Session, out: Findings, *, name: str = "") -> None:
        """Begin a new user-initiated part of the session; the end of the part before it is judged."""
        if session.part_active:
            if self._judges_parts:
                self._engine.end_part(session, session.make_end("closed", session.time), out)
            session.part += 1
            session.part_active = False
        session.explicit_part = name

    def _user_message(self, message: UserMessage, session: Session, out: Findings) -> None:
        if not message.part:
            self.begin_part(session, out)
            session.fresh_part = True
        captured = message.captured and message.text != ""
        message = replace(message, index=session.turns - 1, captured=captured)
        engine = self._engine
        if engine.conditions is not None:
            engine.conditions.update(message, session.memory)
        self._show(engine.local.users, message, session, out)

    def _turn(self, turn: Turn, session: Session, out: Findings) -> None:
        if session.fresh_part:
            session.fresh_part = False
        elif not turn.part and opens_part(turn, after_answer=session.answered):
            self.begin_part(session, out)
        session.part_active = True
        session.answered = turn.response.get("stop_reason") not in _CONTINUES
        turn, blocks = stamped_turn(turn, session.turns, self._names)
        session.turns += 1
        engine = self._engine
        if engine.conditions is not None:
            engine.conditions.update(turn, session.memory)
        if engine.has_twins:
            lasting = session.lasting
            lasting.catalogue = learn(turn, lasting.catalogue, engine.asks_about)
        self._show(engine.local.turns, turn, session, out)
        for number, block in enumerate(blocks):
            self._block(turn, number, block, session, out)

    def _block(self, turn: Turn, number: int, block: dict[str, Json], session: Session, out: Findings) -> None:
        """Count a tool-use block of a turn as an attempt, unless a tool_call event reported it before."""
        written, args, call_id = block.get("name"), block.get("input"), block.get("id")
        written = written if type(written) is str else ""
        name = self._names[written]
        tool = written if name is None else name.tool
        call_id = call_id if type(call_id) is str else ""
        if type(args) is str:  # JSON in JSON, as some sources write it
            reading: Arguments | None = read_arguments(args)
        else:
            reading = UNREAD if is_deep(args) else None
        args, contested = (args, "") if reading is None else (reading.value, reading.contested)
        plan = self._engine.local.calls[tool]
        if session.calls.by_id:
            known = _match_block(session, _Sighting(call_id, tool, args, contested), self._leniency(plan))
            if known is not None:
                self._merge(known, args)
                return
        whose = self._late.whose(turn) if self._tells_callers else ()
        opened = self._open_attempt(session, call_id, tool, args, contested, turn.time, whose, None)
        if plan is not None or self._show_across is not None or name is not None or contested:
            unreadable = reading is not None and reading.unreadable
            call = call_in(turn, number, tool, call_id, args, opened)
            if unreadable or contested:
                call = replace(call, parse_error=unreadable, contested=contested)
            self._show_call(plan, call, opened, session, out)
            if name is not None:
                self._report_lookalike(replace(call, tool=written), name, out)

    def find_question(self, attempt: ToolCall, session: Session) -> OpenCall | None:
        """Return the latest open call counted under the id of the attempt's event, with its tool and arguments."""
        seen = _Sighting(attempt.call_id, attempt.tool, attempt.args, attempt.contested)
        for call in reversed(session.calls.by_id.get(attempt.call_id, ())):
            if call.event_id != attempt.event_id or (call.asked and not call.may_be_repeated(attempt.time)):
                continue
            if seen.is_of(call):
                return call
        return None

    def _tool_call(self, call: ToolCall, session: Session, out: Findings) -> Counted:
        if not call.asked:  # of a question, a guard has read them
            call = read_call(call)
        name = self._names[call.tool]
        if name is None:
            return self._count_call(call, session, out)
        counted = self._count_call(replace(call, tool=name.tool), session, out)
        if not counted.is_repeat:
            call = stamped_call(call, counted.opened)
            self._report_lookalike(call, name, out)
        counted.call = call
        return counted

    def _report_lookalike(self, call: ToolCall, name: SeenName, out: Findings) -> None:
        if name.is_lookalike:
            self._counts.lookalike_names += 1
            out.append(lookalike_finding(call, name.tool))

    def _count_call(self, call: ToolCall, session: Session, out: Findings) -> Counted:
        call_id, tool, unanswered = call.call_id, call.tool, session.calls.by_id
        # Most calls are new: neither their id is open nor a call without one.
        may_be_known = call_id in unanswered or "" in unanswered if call_id else bool(unanswered)
        plan = self._engine.local.calls[tool]
        whose = self._late.whose(call) if self._tells_callers else ()
        if may_be_known:
            seen = _Sighting(call_id, tool, call.args, call.contested)
            after = call.time - self._idle if call.asked and call.time is not None else -inf
            known = _match_event(session, call, seen, self._leniency(plan), self._late, whose, after)
            if known is not None:
                self._merge(known, call.args)
                asked_again = call.asked and known.asked
                if call.asked and not asked_again:
                    self._ask_late(call, known, session, out)
                return Counted(out, call, known, is_repeat=True, asked_again=asked_again)
        session.part_active = True
        opened = self._open_attempt(session, call_id, tool, call.args, call.contested, call.time, whose, call.event_id)
        opened.asked = call.asked
        call = stamped_call(call, opened)
        self._show_call(plan, call, opened, session, out)
        return Counted(out, call, opened)

    def _ask_late(self, call: ToolCall, known: OpenCall, session: Session, out: Findings) -> None:
        """Take note of the first question about an attempt that was told of before.

        A while later, rules that stop and go by time judge it once more, as it is asked about now.
        """
        told = known.since
        known.note_question(call.event_id, call.time)
        if told is None or call.time is None or call.time - told < FRESH:
            return
        objections: Objections = []
        call = stamped_call(call, known)
        shown = call if self._derived is None else self._derived.onto(call, session.memory)
        plan = self._late.local.calls[call.tool]
        if plan is not None:
            self._engine.run(plan, shown, session, session.memory, out, objections)
        if self._show_across is not None and self._late.across:
            self._show_across(shown, session, out, objections, self._late.across)
        if objections and known.objections is not None:
            known.objections = (*known.objections, *objections)

    def _merge(self, known: OpenCall, args: Json) -> None:
        """Count a sighting of an attempt that is known."""
        self._counts.merged_calls += 1
        if args is not None and known.args is args and len(canonical(args)) > LARGE:  # it brought the arguments
            known.keep_excerpt(self._engine.places)

    def _leniency(self, plan: Plan | None) -> _Leniency:
        """Return which sighting of an attempt at the tool of a plan may leave the arguments out."""
        reads_args = self._show_across is not None or (plan is not None and plan.reads_args)
        return self._strict if reads_args else self._lenient

    def _open_attempt(
        self,
        session: Session,
        call_id: str,
        tool: str,
        args: Json,
        contested: str,
        time: float | None,
        whose: tuple[str, ...],
        event_id: str | None,
    ) -> OpenCall:
        """Open an attempt that an event of this id, or else a block, was the first to tell of."""
        calls, lasting, in_block = session.calls, session.lasting, event_id is None
        if calls.count >= self._max_open_calls:
            calls.drop(next(iter(calls.by_id.values()))[0])
            self._counts.evictions["open_calls"] += 1
            calls.lost = True
        before, written = count_attempt(lasting.told, call_id, tool, args)
        opened = OpenCall(
            call_id,
            tool,
            lasting.attempts,
            session.turns - 1,
            in_block,
            not in_block,
            0,
            args,
            b"",
            event_id or "",
            False,  # by position: names take longer
            (),
            False,
            time,
            whose,
            before,
            args is None,
            contested != "",
        )
        if written > LARGE:
            opened.keep_excerpt(self._engine.places)
        calls.add(opened)
        lasting.attempts += 1
        self._tools[tool] += 1
        return opened

    def _show_call(self, plan: Plan | None, call: ToolCall, opened: OpenCall, session: Session, out: Findings) -> None:
        """Show a call to the rules, and keep what they have against it while it is open."""
        objections: Objections = []
        if session.lasting.catalogue is not None and call.handed is None:
            call = with_handed(call, session.lasting.catalogue)
        shown = call if self._derived is None else self._derived.onto(call, session.memory)
        if plan is not None:
            self._engine.run(plan, shown, session, session.memory, out, objections)
        if self._show_across is not None:
            self._show_across(shown, session, out, objections, self._engine.cross_session)
        if call.contested:
            self._counts.contested_calls += 1
            then = Action.BLOCK if self._engine.policy.stops else None
            out.append(contested_finding(call, session, then, call.contested))
            objections.append(Objection(NO_RULE, CONTESTED, call.contested[:MOST_TEXT]))
        if objections:
            opened.objections = tuple(objections)

    def _decision(self, decision: GateDecision, session: Session, out: Findings) -> None:
        name = self._names[decision.tool]
        if name is not None:
            decision = replace(decision, tool=name.tool)
        call = session.calls.find_asked(decision) or session.calls.find(decision.call_id, decision.tool)
        if call is not None and self._takes_answers:
            call.note_answer(decision.action != "allow", decision.time)
        decision = stamped_decision(decision, call, session.turns, self._engine.places)
        self._show(self._engine.local.decisions[decision.tool], decision, session, out)

    def _tool_result(self, result: ToolResult, session: Session, out: Findings) -> None:
        name = self._names[result.tool]
        if name is not None:
            result = replace(result, tool=name.tool)
        call = session.calls.take(result.call_id, result.tool)
        if call is None:
            self._counts.unpaired_results += 1
            if session.calls.lost and not result.tool:
                session.cut |= self._engine.lasting_results
        else:
            for other in session.calls.by_id.get(call.call_id, ()):
                if other.asked and other.tool == call.tool:
                    other.end_repeats()
        plan = self._engine.local.results[result.tool or (call.tool if call is not None else "")]
        if plan is not None or self._show_across is not None:
            self._show(plan, stamped_result(result, call, session.turns, self._engine.places), session, out)

    def _show(self, plan: Plan | None, event: Event, session: Session, out: Findings) -> None:
        if self._derived is not None:
            event = self._derived.onto(event, session.memory)
        if plan is not None:
            self._engine.run(plan, event, session, session.memory, out)
        if self._show_across is not None:
            self._show_across(event, session, out, None, self._engine.cross_session)


def opens_part(turn: Turn, *, after_answer: bool) -> bool:
    """Whether the turn's request begins a user-initiated part of the session."""
    request = turn.request
    if request is None or "messages" not in request or not turn.captured:
        return False  # without the request or its messages this cannot be known
    if after_answer:
        return True
    messages = request.get("messages")
    if type(messages) is list:
        for message in reversed(messages):
            if type(message) is dict and message.get("role") != "system":
                return _is_user(message)
    return True


def _is_user(message: dict[str, Json]) -> bool:
    """Whether a person wrote the message; Anthropic sends tool results in the user's role."""
    if message.get("role") != "user":
        return False
    content = message.get("content")
    return not (
        isinstance(content, list)
        and content
        and all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)
    )


def stamped_turn(turn: Turn, index: int, names: dict[str, SeenName | None]) -> tuple[Turn, list[dict[str, Json]]]:
    """Return a turn with its index, its text in one piece and the names of its tools; and its tool-use blocks."""
    content = turn.response.get("content")
    text = content if type(content) is str else ""
    blocks: list[dict[str, Json]] = []
    tools: list[str] = []
    for block in content if type(content) is list else ():
        kind = block.get("type") if type(block) is dict else None
        if kind == "text":
            piece = block.get("text")
            if type(piece) is str:
                text = f"{text}\n{piece}" if text else piece
        elif kind == "tool_use":
            blocks.append(block)
            written = block.get("name")
            written = written if type(written) is str else ""
            name = names[written]
            tools.append(written if name is None else name.tool)
    return replace(turn, index=index, text=text, tools=tuple(tools)), blocks


def call_in(turn: Turn, number: int, tool: str, call_id: str, args: Json, opened: OpenCall) -> ToolCall:
    """Return the call that a block of a turn announces."""
    # With more than fifteen names in a call, Python makes a dict of them, which takes five times as long.
    call = ToolCall(
        session_id=turn.session_id,
        event_id=f"{turn.event_id}/{number}",
        time=turn.time,
        run_id=turn.run_id,
        agent=turn.agent,
        labels=turn.labels,
        tool=tool,
        call_id=call_id,
        args=args,
        index=opened.index,
        attempt=opened.attempt,
    )
    if opened.before:
        call = replace(call, before=opened.before)
    trace_id, agent_path, part, counts_as = turn.trace_id, turn.agent_path, turn.part, turn.counts_as
    if trace_id or agent_path or part or counts_as or not turn.captured:
        call = replace(
            call, trace_id=trace_id, agent_path=agent_path, part=part, counts_as=counts_as, captured=turn.captured
        )
    return call


def stamped_call(call: ToolCall, opened: OpenCall) -> ToolCall:
    """Return a call with the number of the attempt that it is."""
    if opened.before:
        return replace(call, index=opened.index, attempt=opened.attempt, before=opened.before)
    return replace(call, index=opened.index, attempt=opened.attempt)


def stamped_result(result: ToolResult, call: OpenCall | None, turns: int, places: Wanted) -> ToolResult:
    """Return a result with the number, the tool and the arguments of the attempt that it answers, if there was one."""
    if call is None:
        return replace(result, index=turns - 1, attempt=-1, args=None)
    return replace(
        result, index=call.index, attempt=call.attempt, args=_read_args(call, places), tool=result.tool or call.tool
    )


def stamped_decision(decision: GateDecision, call: OpenCall | None, turns: int, places: Wanted) -> GateDecision:
    """Return the decision on an attempt with the number, the tool and the arguments of it, if it is known."""
    if call is None:
        return replace(decision, index=turns - 1, attempt=-1, args=None)
    return replace(
        decision, index=call.index, attempt=call.attempt, args=_read_args(call, places), tool=decision.tool or call.tool
    )


def _read_args(call: OpenCall, places: Wanted) -> Json:
    """Return of the arguments of a call what the policy reads, whether the call was stored meanwhile or not."""
    return call.args if call.excerpted or call.args is None else excerpt(call.args, places)


class _Sighting:
    """An attempt as a tool-use block or a tool_call event tells of it."""

    __slots__ = ("args", "call_id", "contested", "tool")

    def __init__(self, call_id: str, tool: str, args: Json, contested: str) -> None:
        self.call_id = call_id
        self.tool = tool
        self.args = args
        self.contested = contested

    def is_of(self, call: OpenCall) -> bool:
        """Whether an open attempt has this tool and these arguments; it never depends on what was stored of it."""
        if self.tool != call.tool or (self.contested != "") != call.contested:
            return False
        args, opened = self.args, call.args
        if call.excerpted:
            return call.digest == args_digest(args, call.contested)
        if args is None or opened is None:  # left out, as some sources leave out an empty object
            return not args and not opened
        return written_alike(args, opened) or json_equal(args, opened)  # `==` takes true for 1, and may raise


class _Leniency(NamedTuple):
    """Which of two sightings of one id and tool may leave the arguments out.

    The later may, unless somebody waits for the answer to it: what it will run with is then unknown. The earlier may
    where no rule reads arguments: the attempt was judged without them.
    """

    later: bool
    earlier: bool

    def covers(self, call: OpenCall, seen: _Sighting) -> bool:
        """Whether an open attempt and a sighting of the same id are one, one of them without arguments."""
        if seen.tool != call.tool or seen.contested or (seen.args is None) == call.lacks_args:
            return False
        return self.later if seen.args is None else self.earlier


def _match_block(session: Session, seen: _Sighting, leniency: _Leniency) -> OpenCall | None:
    """Return the open attempt that an event reported and no block announced yet, or None.

    Ids decide where both have one. A block without an id and its call with one, or the other way round, are one
    attempt if tool and arguments are the same; it then has the id. Two blocks are two attempts, even under one id.
    """
    for call in reversed(_candidates(session, seen.call_id)):
        if not call.in_event or call.in_block:
            continue
        same_id = seen.call_id != "" and call.call_id == seen.call_id
        if seen.is_of(call) or (same_id and leniency.covers(call, seen)):
            call.in_block = True
            return _completed(session, call, seen)
    return None


def _match_event(
    session: Session,
    event: ToolCall,
    seen: _Sighting,
    leniency: _Leniency,
    late: LateQuestions,
    whose: tuple[str, ...],
    after: float,
) -> OpenCall | None:
    """Return the open attempt that an event reports again, or None.

    That is an attempt that a block announced and no event reported yet, or one that another event of the same id
    reported for the same caller. Without ids, two events are two attempts. A question is about an attempt that nobody
    asked about yet; the judge knows a question again by its event id. One without such an id is asked again only where
    the answer was no.
    ``whose`` it is, and that it was told ``after`` some time, must fit, or limits have counted it for somebody else.
    """
    unnamed = event.event_id[:1] == "~"
    for call in reversed(_candidates(session, seen.call_id, event.event_id)):
        same_id = seen.call_id != "" and call.call_id == seen.call_id
        if not (same_id or call.event_id == event.event_id if call.in_event else call.in_block):
            continue
        if event.asked:
            if not _may_be_asked(call, unnamed, late.may_ask(call.whose, whose), after):
                continue
        elif call.in_event and late.are_two(call.whose, whose):
            continue
        if seen.is_of(call) or (same_id and leniency.covers(call, seen)):
            call.in_event = True
            return _completed(session, call, seen)
    return None


def _may_be_asked(call: OpenCall, unnamed: bool, is_same: bool, after: float) -> bool:
    """Whether a question may be about an attempt: of the same caller and asked about first, or refused before."""
    if not call.asked:
        return is_same and (call.since is None or call.since > after)
    return unnamed and call.refused and call.event_id[:1] == "~"


def _completed(session: Session, call: OpenCall, seen: _Sighting) -> OpenCall:
    """Return an attempt with what its first sighting left out: arguments, its id. A call with others is another one."""
    if seen.args is not None and call.lacks_args:
        call.excerpted, call.args, call.lacks_args = 0, seen.args, False
    if seen.call_id and not call.call_id:
        session.calls.drop(call)
        call.call_id = seen.call_id
        session.calls.add(call)
    return call


def _candidates(session: Session, call_id: str, event_id: str = "~") -> list[OpenCall]:
    """Return the open attempts that may be meant; those of the same id are last, and so are tried first."""
    by_id = session.calls.by_id
    same = by_id.get(call_id) if call_id else None
    if same is None:
        same = []
    elif len(by_id) == 1:
        return same
    # Only those of the last turn, the moment before it, or the event: an old attempt that never ran stays its own.
    recent = session.turns - 2
    if call_id:
        nameless = by_id.get("")
        if nameless is None:
            return same
        others: Iterable[Sequence[OpenCall]] = (nameless,)
    else:
        others = by_id.values()
    near = [call for calls in others for call in calls if call.index >= recent or call.event_id == event_id]
    return [*reversed(near), *same] if near else same
