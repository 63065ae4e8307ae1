"""The engine: runs the rules of a policy over events and turns their hits into findings."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from stream_guard.engine.bound import NO_STATE, BoundRule, Handler, lacks_key, remembered_leaves
from stream_guard.engine.cross_session import CrossSessionRules
from stream_guard.engine.derived_labels import DerivedLabels
from stream_guard.engine.findings import At, Moment, error_finding, make_finding
from stream_guard.engine.gaps import (
    NO_CLOCK,
    NO_CONTENT,
    NO_FIELD,
    NO_KEY,
    NO_TEXT,
    NOT_ALL_JUDGED,
    UNKNOWN_AGENT,
    UNREADABLE,
    Standing,
    enter,
    is_unreadable,
    may_have_missed,
)
from stream_guard.engine.index import Answer, GateGroup, Index, Plan
from stream_guard.engine.key_state import Address, KeyState
from stream_guard.engine.names import ToolNames
from stream_guard.engine.objections import FAILED, HELD, HIT, MOST_TEXT, UNEVALUABLE, Objection
from stream_guard.engine.rule_loop import ANSWERED, OPENED, RAISED
from stream_guard.engine.texts import PLACES, lacks_content, lacks_text, texts_at
from stream_guard.engine.watched_paths import PathWatch, awaited_paths
from stream_guard.errors import StreamGuardError
from stream_guard.language.conditions import Leaf
from stream_guard.model import (
    Event,
    Finding,
    Hit,
    SessionEnd,
    Settled,
    ToolCall,
    Turn,
    Unsure,
    UserMessage,
)
from stream_guard.observability.counts import Counts
from stream_guard.policy.spec import Policy
from stream_guard.redaction import redact_text
from stream_guard.rule import SETTLED, Mode, State, Verdict

Findings: TypeAlias = list[Finding]


class Engine:
    """All rules of one policy, ready to fold events into key states. Holds no session state itself."""

    def __init__(
        self, policy: Policy, counts: Counts | None = None, *, mode: Mode | None = None, max_states: int = 1000
    ) -> None:
        self.policy = policy
        self.counts = counts if counts is not None else Counts()
        self.max_states = max_states
        self.bounds = tuple(BoundRule(number, spec, policy.agents) for number, spec in enumerate(policy.rules))
        self.by_tag = {bound.tag: bound for bound in self.bounds}
        if len(self.by_tag) < len(self.bounds):
            raise StreamGuardError("two rules have the same 32-bit fingerprint by chance; rename one of them")
        self.is_inline = mode == "inline"
        self._active = [bound for bound in self.bounds if mode is None or mode in bound.rule.modes]
        self._arrange()
        self._turn_leaves = self._leaves("turn")
        self._user_leaves = self._leaves("user")
        self._watch = self._watch_others()
        self.arg_paths = frozenset(steps for bound in self._active for steps in bound.arg_paths)
        self.remembers = bool(self._turn_leaves or self._user_leaves)
        self.names = ToolNames(policy)
        self.derived = DerivedLabels(policy.rules)
        self._failed: set[int] = set()
        self._agents = frozenset(name for name, _ in policy.agents.items())
        # What rules have against the tool call they were shown last; the tracker clears it before each call.
        self.objections: list[Objection] = []
        self._most_objections = 4 * len(self.bounds) + 4

    @property
    def judges_parts(self) -> bool:
        """Whether any rule keeps a state per user-initiated part."""
        return bool(self._part_scoped)

    def _arrange(self) -> None:
        self.local = Index([bound for bound in self._active if "session" in bound.spec.key])
        self._part_scoped = frozenset([bound.number for bound in self.local.bounds if bound.part_scoped])
        self.cross_session = tuple(self._cross_session())

    def _watch_others(self) -> PathWatch | None:
        """Return the watch over paths in turns and messages that the plans for those do not look out for."""
        of_turns = self.local.turns.rules if self.local.turns is not None else []
        of_users = self.local.users.rules if self.local.users is not None else []
        awaited = awaited_paths([bound for bound in self._active if bound not in of_turns], ("turn",))
        awaited += awaited_paths([bound for bound in self._active if bound not in of_users], ("user",))
        return PathWatch(awaited) if awaited else None

    def _leaves(self, when: str) -> dict[int, Leaf]:
        leaves = (leaf for spec in self.policy.rules for leaf in remembered_leaves(spec))
        return {leaf.tag: leaf for leaf in leaves if leaf.path.when == when}

    def _cross_session(self) -> Iterator[CrossSessionRules]:
        keys = {bound.spec.key: None for bound in self._active if "session" not in bound.spec.key}
        for key in keys:
            bounds = [bound for bound in self._active if bound.spec.key == key]
            yield CrossSessionRules(key, bounds, by_tenant=self.policy.by_tenant)

    def remember(self, event: Turn | UserMessage, memory: set[int]) -> None:
        """Store in ``memory`` which conditions over the turn, or over the user's message, hold from now on."""
        leaves = self._turn_leaves if type(event) is Turn else self._user_leaves
        if self._watch is not None and not self._watch.look(event, self.counts):
            self._watch = None
        for tag, leaf in leaves.items():
            if leaf.holds(event):
                memory.add(tag)
            else:
                memory.discard(tag)
            if leaf.lacks is None:
                continue
            if leaf.lacks(event):
                memory.add(leaf.unknown_tag)
            else:
                memory.discard(leaf.unknown_tag)

    def run(self, plan: Plan, event: Event, key_state: KeyState, memory: Set[int], out: Findings) -> None:
        """Run the rules of a plan over an event. This is the hot path; ``_run`` handles every other case."""
        if plan.watch is not None and not plan.watch.look(event, self.counts):
            plan.watch = None
        if plan.waking & key_state.asleep:
            key_state.asleep &= ~plan.waking
        if (
            (plan.needs_content and (not event.captured or (not plan.reads_args and lacks_content(event))))
            or (plan.reads_args and type(event.args) is str)  # type: ignore[union-attr]  # a plan for events of tools
            or (plan.needs_clock and event.time is None)
            or (plan.owned and event.agent not in self._agents and self.policy.agents.named(event.agent) is None)
            or (plan.needs_turn and key_state.turns == 0)
        ):
            self._run_all(plan, event, key_state, memory, out)
            return
        if asleep := key_state.asleep & (plan.mask if event.time is not None else plan.untimed_mask):
            plan = plan.awake.get(asleep) or plan.without(asleep)
        if plan.loop is not None:
            answers = plan.loop(event, memory, key_state.states, event.agent, event.labels)
            if answers is not None:
                self._take(answers, event, key_state, memory, out)
        for bound, handle in plan.full:
            self._run(bound, handle, event, key_state, memory, out)
        if plan.texts is not None:
            found = plan.texts.entries if lacks_text(event) else plan.texts.search(event)
            for bound, handle in found:
                self.counts.texts[bound.spec.id] += 1
                self._run(bound, handle, event, key_state, memory, out, text_found=found is not plan.texts.entries)

    def _take(self, answers: list[Answer], event: Event, key_state: KeyState, memory: Set[int], out: Findings) -> None:
        """Take what the rules of the hot path answered, in the order of their answers."""
        for sort, whose, value in answers:
            if sort == OPENED:
                self._run_behind(whose, event, key_state, memory, out)
                continue
            bound: BoundRule = whose
            if value is SETTLED:
                key_state.asleep |= bound.bit
            elif type(value) is Unsure:
                self._count_unsure(bound, value, key_state, event)
            elif sort == ANSWERED:
                self._report(bound, value, event, key_state, bound.number, out)
            elif sort == RAISED:
                self._fail(bound, value, event, key_state, out)
            else:
                self._count_unevaluable(bound, key_state, event, NO_FIELD)

    def _run_behind(self, group: GateGroup, event: Event, key_state: KeyState, memory: Set[int], out: Findings) -> None:
        """Note whose end must be judged, and run the rules behind an open gate that the hot path cannot run."""
        for number in group.ends:
            key_state.awaiting_end[number] = None
        for bound, handle in group.rest:
            self._run(bound, handle, event, key_state, memory, out)

    def _run_all(self, plan: Plan, event: Event, key_state: KeyState, memory: Set[int], out: Findings) -> None:
        """Run a plan over an event that leaves something out; ``_run`` checks what each rule needs."""
        for bound, handle in plan.entries:
            self._run(bound, handle, event, key_state, memory, out)
        if plan.texts is not None:
            for bound, handle in plan.texts.entries:
                self._run(bound, handle, event, key_state, memory, out)

    def _run(
        self,
        bound: BoundRule,
        handle: Handler,
        event: Event,
        key_state: KeyState,
        memory: Set[int],
        out: Findings,
        *,
        text_found: bool = False,
    ) -> None:
        """Run one rule with everything the engine adds to it: needs, gate, key, text, timer and `for`."""
        entered = self._enter(bound, handle, event, key_state, memory)
        if entered is None:
            return
        handle, address, inside, doubt = entered
        if not text_found and not _has_text(bound, event):
            self._take_silence(bound, event, key_state, asked=inside)
            return
        state = self._state(bound, address, key_state)
        saved = msgspec.msgpack.encode(state) if bound.suspect else b""
        try:
            hit = handle(event, state)
        except Exception as error:  # noqa: BLE001  # ADR 0007
            if bound.suspect and not bound.stateless:
                key_state.states[address] = bound.decoder.decode(saved)
            self._fail(bound, error, event, key_state, out)
            return
        if bound.timer is not None:
            self._set_timer(bound, address, state, key_state)
        hit = self._settle(bound, hit, event, key_state, doubt, asked=inside)
        if bound.spec.hold is not None and inside and not self._held(bound, hit, address, event, key_state):
            return
        if hit is not None:
            self._report(bound, hit, event, key_state, address, out)

    def _settle(
        self, bound: BoundRule, verdict: Verdict, event: Event, key_state: KeyState, doubt: str, *, asked: bool
    ) -> Hit | None:
        """Return the hit of a verdict, if it is one that stands; count what could not be judged."""
        if isinstance(verdict, Unsure):
            self._count_unsure(bound, verdict, key_state, event)
            return None
        if isinstance(verdict, Hit):
            if not doubt:
                return verdict
            self._count_unevaluable(bound, key_state, event, doubt)  # it fires, if the rule applies
        elif verdict is None or bound.wakes_at is not None:
            self._take_silence(bound, event, key_state, asked=asked)
        return None

    def _take_silence(self, bound: BoundRule, event: Event, key_state: KeyState, *, asked: bool) -> None:
        """Count a rule that found nothing where that proves nothing."""
        if bound.needs_content and lacks_content(event):
            self._count_unevaluable(bound, key_state, event, NO_CONTENT)
        elif bound.texts and lacks_text(event):
            self._count_unevaluable(bound, key_state, event, NO_TEXT)
        elif asked and may_have_missed(bound, event):
            self._count_unevaluable(bound, key_state, event, UNREADABLE)

    def _enter(
        self, bound: BoundRule, handle: Handler, event: Event, key_state: KeyState, memory: Set[int]
    ) -> tuple[Handler, Address, bool, str] | None:
        """Return the handler, the address of its state, whether the gate is open, and why that is in doubt.

        None when nothing is to run.
        """
        if self._lacks_something(bound, event, key_state):
            entry = enter(bound, event, key_state.turns, memory)
            doubt = self._doubt(bound, entry, event, key_state)
        else:
            entry, doubt = Standing(bound.gate is None or bound.gate(event, memory)), ""
            if not entry.inside and bound.may_open is not None and bound.may_open(event, memory):
                self._count_unevaluable(bound, key_state, event, NO_FIELD)
        if entry.blind:
            return None
        inside = entry.inside
        if not inside and not doubt:
            if bound.ungated is None:
                return None
            handle = bound.ungated
        address = bound.number if bound.key is None else bound.key(event)
        if address is None:
            if lacks_key(bound.spec.key, event):
                self._count_unevaluable(bound, key_state, event, NO_KEY)
            elif inside and bound.needs_content and (not event.captured or is_unreadable(event)):
                self._count_unevaluable(bound, key_state, event, entry.lacks or UNREADABLE)
            return None
        if inside and bound.gate is not None and bound.end is not None:
            key_state.awaiting_end[address] = None
        return handle, address, bool(inside), doubt

    def _doubt(self, bound: BoundRule, entry: Standing, event: Event, key_state: KeyState) -> str:
        """Count a judgement that cannot be made. Return why a rule is asked although its gate is unknown.

        That is a rule that looks at this event alone: if it does not fire, the gate does not matter.
        """
        if entry.blind:
            # Outside the gate it could not fire, but it could have been satisfied.
            if entry.inside is not False or bound.ungated is not None:
                about = None if entry.inside is False else event
                self._count_unevaluable(bound, key_state, about, entry.lacks)
        elif entry.inside is None:
            if bound.stateless and bound.key is None:
                return entry.lacks
            self._count_unevaluable(bound, key_state, event, entry.lacks)
        return ""

    def _lacks_something(self, bound: BoundRule, event: Event, key_state: KeyState) -> bool:
        """Whether the event leaves something out that the rule or its gate may need."""
        return (
            (bound.needs_content and (not event.captured or is_unreadable(event)))
            or (bound.needs_clock and event.time is None)
            or (bound.needs_turn and key_state.turns == 0)
            or (bound.spec.agent != "" and self.policy.agents.named(event.agent) is None)
        )

    def _state(self, bound: BoundRule, address: Address, key_state: KeyState) -> State:
        if bound.stateless:
            return NO_STATE
        state = key_state.states.get(address)
        if state is None:
            if len(key_state.states) >= self.max_states:
                self._evict_state(key_state)
            state = key_state.states[address] = bound.new_state()
        return state

    def _evict_state(self, key_state: KeyState) -> None:
        """Forget the oldest keyed state: an agent that invents keys must not fill the memory."""
        oldest = next((address for address in key_state.states if isinstance(address, tuple)), None)
        if oldest is not None:
            self._forget(key_state, oldest)
            self.counts.evictions["states"] += 1

    def _forget(self, key_state: KeyState, address: Address) -> None:
        key_state.states.pop(address, None)
        if key_state.asleep:
            key_state.asleep &= ~self.bounds[_number(address)].bit
        if key_state.timers:
            key_state.timers.pop(address, None)
        if key_state.cooldowns:
            key_state.cooldowns.pop(address, None)
        if key_state.holds:
            key_state.holds.pop(address, None)
        if key_state.awaiting_end:
            key_state.awaiting_end.pop(address, None)

    def count_keyless(self, group: CrossSessionRules, event: Event, key_state: KeyState) -> None:
        """Count an event that rules across sessions cannot judge because it lacks the agent or label of their key."""
        plan = group.index.plan(event)
        if plan is not None and lacks_key(group.key, event):
            for bound, _ in plan.entries:
                self._count_unevaluable(bound, key_state, event, NO_KEY)

    def _count_unevaluable(self, bound: BoundRule, key_state: KeyState, event: Event | None, lacks: str) -> None:
        """Count a judgement that could not be made; without an event, it is about none in particular."""
        if lacks == UNKNOWN_AGENT and type(event) is not ToolCall:
            return
        counts = self.counts
        counts.unevaluable[bound.number] += 1
        counts.lacking[bound.lacking(lacks)] += 1
        # Any agent can write what nobody can read, or take another name: that does not excuse what it owes.
        if lacks not in (UNREADABLE, UNKNOWN_AGENT):
            key_state.unevaluable.add(bound.number)
        self._object(event, bound, UNEVALUABLE, lacks)

    def _count_unsure(self, bound: BoundRule, unsure: Unsure, key_state: KeyState, event: Event | None) -> None:
        if unsure.why == "type_mismatch":
            self.counts.type_mismatches += 1
        else:
            lacks = UNREADABLE if event is not None and is_unreadable(event) else unsure.lacks
            self._count_unevaluable(bound, key_state, None if unsure.followup else event, lacks)

    def _object(self, event: Event | None, bound: BoundRule, cause: str, text: str) -> None:
        """Note what a rule has against a tool call. Calls that no tracker shows are not asked about: they are few."""
        if type(event) is ToolCall and len(self.objections) < self._most_objections:
            self.objections.append(Objection(bound.number, cause, text[:MOST_TEXT]))

    def _held(self, bound: BoundRule, hit: Hit | None, address: Address, event: Event, key_state: KeyState) -> bool:
        """Whether the rule has hit without a break for as long as its `for` asks."""
        if hit is None:
            key_state.holds.pop(address, None)
            return False
        if event.time is None:
            self._count_unevaluable(bound, key_state, event, NO_CLOCK)
            return False
        since = key_state.holds.setdefault(address, event.time)
        return event.time - since >= (bound.spec.hold or 0.0)

    def _set_timer(self, bound: BoundRule, address: Address, state: State, key_state: KeyState) -> None:
        deadline = bound.timer(state) if bound.timer is not None else None
        if deadline is None:
            key_state.timers.pop(address, None)
        else:
            key_state.timers[address] = deadline

    def restore_timers(self, key_state: KeyState) -> None:
        """Set the timers from restored states."""
        for address, state in key_state.states.items():
            bound = self.bounds[_number(address)]
            if bound.timer is not None:
                self._set_timer(bound, address, state, key_state)

    def fire(self, key_state: KeyState, now: float, out: Findings) -> None:
        """Call ``on_deadline`` of the rules whose deadline is at or before ``now``, in the order of the deadlines."""
        while key_state.timers:
            address, deadline = min(key_state.timers.items(), key=lambda item: (item[1], str(item[0])))
            if deadline > now:
                return
            bound = self.bounds[_number(address)]
            del key_state.timers[address]
            state = self._state(bound, address, key_state)
            try:
                hit = bound.rule.on_deadline(deadline, state)
            except Exception as error:  # noqa: BLE001  # ADR 0007
                self._fail(bound, error, None, key_state, out)
                continue
            self._set_timer(bound, address, state, key_state)
            # A deadline that does not move forward would be called for ever.
            if key_state.timers.get(address, deadline + 1) <= deadline:
                del key_state.timers[address]
            if hit is not None:
                self._report(bound, hit, None, key_state, address, out, at="deadline", time=deadline)

    def end(
        self,
        key_state: KeyState,
        end: SessionEnd,
        out: Findings,
        *,
        index: Index | None = None,
        part_only: bool = False,
    ) -> None:
        """Call ``on_session_end`` of the rules; with ``part_only``, of those that keep a state per session part."""
        for bound in (index or self.local).ends:
            if part_only and not bound.part_scoped:
                continue
            if bound.key is not None:
                for address in self._ending_addresses(bound, key_state):
                    self._judge_end(bound, address, end, key_state, out)
            elif self._has_begun(bound, key_state):
                self._judge_end(bound, bound.number, end, key_state, out)
        if part_only:
            self._forget_part(key_state)

    def _has_begun(self, bound: BoundRule, key_state: KeyState) -> bool:
        """Whether the end of a rule with a single state is to be judged."""
        if bound.gate is not None:
            return bound.number in key_state.awaiting_end
        # A part without a turn or a call is not judged; a whole trace always is.
        return key_state.part_active or not bound.part_scoped

    def _ending_addresses(self, bound: BoundRule, key_state: KeyState) -> list[Address]:
        """Return the states of a rule with a key whose end is to be judged."""
        if bound.gate is not None:
            return [address for address in key_state.awaiting_end if _number(address) == bound.number]
        return [address for address in key_state.states if _number(address) == bound.number]

    def _judge_end(
        self, bound: BoundRule, address: Address, end: SessionEnd, key_state: KeyState, out: Findings
    ) -> None:
        state = NO_STATE if bound.stateless else key_state.states.get(address) or bound.new_state()
        try:
            hit = bound.rule.on_session_end(end, state)
        except Exception as error:  # noqa: BLE001  # ADR 0007
            self._fail(bound, error, end, key_state, out)
            return
        if hit is None:
            return
        if bound.number in key_state.unevaluable:
            # What is missing may have been in an event that could not be judged.
            self._count_unevaluable(bound, key_state, None, NOT_ALL_JUDGED)
        else:
            self._report(bound, hit, None, key_state, address, out, at="end", time=end.time)

    def _forget_part(self, key_state: KeyState) -> None:
        scoped = self._part_scoped
        for address in list(key_state.states):
            if _number(address) in scoped:
                self._forget(key_state, address)
        # Mostly empty, and what had a state is gone from them.
        if key_state.awaiting_end or key_state.cooldowns or key_state.holds:
            for address in [*key_state.awaiting_end, *key_state.cooldowns, *key_state.holds]:
                if _number(address) in scoped:
                    self._forget(key_state, address)
        if key_state.unevaluable:
            key_state.unevaluable -= scoped

    def _report(
        self,
        bound: BoundRule,
        hit: Hit | Unsure | Settled,
        event: Event | None,
        key_state: KeyState,
        address: Address,
        out: Findings,
        *,
        at: At = "event",
        time: float | None = None,
    ) -> None:
        """Append the finding of a hit, unless the rule's cooldown holds it back."""
        # By the exact type first: to tell that a struct is no instance of a class takes longer.
        if type(hit) is Unsure or (type(hit) is not Settled and isinstance(hit, Unsure)):
            self._count_unsure(bound, hit, key_state, event)
            return
        if type(hit) is Settled or isinstance(hit, Settled):
            key_state.asleep |= bound.bit
            return
        self.counts.hits[bound.number] += 1
        if bound.spec.set_labels:
            self.derived.set(bound.spec.set_labels, key_state.memory)
        time = event.time if event is not None else time
        suppressed = 0
        if bound.spec.cooldown is not None and time is not None:
            last, suppressed = key_state.cooldowns.get(address, (None, 0))
            # As far back too: a stamp from the future must not hold back what comes now.
            if last is not None and abs(time - last) < bound.spec.cooldown:
                key_state.cooldowns[address] = (last, suppressed + 1)
                self.counts.suppressed += 1
                if not hit.followup:
                    self._object(event, bound, HELD, _objection(bound, hit))
                return
            key_state.cooldowns[address] = (time, 0)
        self.counts.findings[bound.number] += 1
        if not hit.followup:
            self._object(event, bound, HIT, _objection(bound, hit))
        finding = make_finding(bound, hit, event, key_state, address, Moment(at, time), suppressed)
        if event is None and self.derived and "session" in bound.spec.key:
            finding = replace(finding, labels=self.derived.beside(finding.labels, key_state.memory))
        out.append(finding)

    def _fail(
        self, bound: BoundRule, error: Exception, event: Event | None, key_state: KeyState, out: Findings
    ) -> None:
        """Count an exception of a rule, and report the first one of each rule."""
        self.counts.rule_errors[bound.number] += 1
        self._object(event, bound, FAILED, "")
        if not bound.suspect:
            bound.mark_suspect()
            self._arrange()
        if bound.number not in self._failed:
            self._failed.add(bound.number)
            out.append(error_finding(bound, error, event, key_state))


def _objection(bound: BoundRule, hit: Hit) -> str:
    """Return what a hit has against a call: what was found, and what would satisfy the rule.

    It may become the reason of a decision, which agents, reviewers and the audit get: no secret may be in it.
    """
    if not bound.spec.stops:
        return hit.detail
    found = redact_text(hit.detail)
    return f"{found}; to pass: {redact_text(hit.advice)}" if hit.advice else found


def _has_text(bound: BoundRule, event: Event) -> bool:
    """Whether the event contains a text that the rule waits for; True for a rule that waits for none."""
    waiting = bound.texts.get(PLACES[type(event)]) if bound.texts else None
    return waiting is None or any(regex.search(texts_at(event, path)) is not None for path, regex in waiting)


def _number(address: Address) -> int:
    return address if isinstance(address, int) else int(address[0])
