"""The engine: runs the rules of a policy over events and turns their hits into findings."""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import inf

from stream_guard.judge.bound import Address, BoundRule, Handler, lacks_key, overrides
from stream_guard.judge.content import (
    FORGOTTEN,
    NO_CONTENT,
    NO_FIELD,
    NO_KEY,
    NO_RESPONSES,
    NO_TEXT,
    NOT_ALL_JUDGED,
    UNREADABLE,
    gate_lacks,
    has_text,
    is_unreadable,
    judge_gate,
    lacks_content,
    lacks_text,
    may_be_asked,
    may_have_missed,
    rule_lacks,
)
from stream_guard.judge.counts import Counts
from stream_guard.judge.errors import StreamGuardError
from stream_guard.judge.findings import DerivedLabels, Evaluation, Findings, Objections, Reporter, judged_finding
from stream_guard.judge.index import CrossSessionRules, Index, LateQuestions, Plan, RememberedConditions, by_key
from stream_guard.judge.json_values import decode, encode
from stream_guard.judge.model import Event, Finding, Hit, SessionEnd, ToolCall, Unsure
from stream_guard.judge.names import ToolNames
from stream_guard.judge.ports import NO_ANSWERS, Answer, JudgeAnswers
from stream_guard.judge.rule import Mode, Verdict
from stream_guard.judge.rule_loop import ANSWERED, RAISED
from stream_guard.judge.rule_loop import Answer as HandlerAnswer
from stream_guard.judge.session import RuleSlots, Session, Slot, number_of, state_at, wanted_places
from stream_guard.judge.spec import Policy
from stream_guard.judge.twins import Twin, TwinJudge, make_twins


class Engine:
    """All rules of one policy, ready to fold events into key states. Holds no session state itself."""

    def __init__(
        self,
        policy: Policy,
        counts: Counts | None = None,
        *,
        mode: Mode | None = None,
        max_states: int = 1000,
        answers: JudgeAnswers = NO_ANSWERS,
    ) -> None:
        self.policy = policy
        self.answers = answers
        self.counts = counts if counts is not None else Counts()
        self.max_states = max_states
        labels = frozenset(f"labels.{name}" for spec in policy.rules for name in spec.set_labels)
        rules = tuple(BoundRule(number, spec, policy.agents, labels) for number, spec in enumerate(policy.rules))
        if len({bound.tag for bound in rules}) < len(rules):
            raise StreamGuardError("two rules have the same 32-bit fingerprint by chance; rename one of them")
        self.bounds = (*rules, *make_twins(rules, policy.agents))  # by number: the rules, then their twins
        self.has_twins = len(self.bounds) > len(rules)  # whether a rule that stops asks about arguments
        self.by_tag = {bound.tag: bound for bound in self.bounds}
        self._by_slot = {bound.spec.slot: bound for bound in rules}
        self.is_inline = mode == "inline"
        self._active = [bound for bound in rules if mode is None or mode in bound.rule.modes]
        self._arrange()
        self.places = wanted_places(frozenset(steps for bound in self._active for steps in bound.arg_paths))
        conditions = RememberedConditions(policy, self._active, self.local, self.counts)
        self.conditions = conditions or None
        remembering = [bound for bound in self._active if bound.must_remember]
        self.lasting = _numbers(remembering)
        self.lasting_results = _numbers([bound for bound in remembering if overrides(bound.rule, "on_tool_result")])
        self.names = ToolNames(policy)
        self.derived = DerivedLabels(policy.rules)
        self._agents = frozenset(name for name, _ in policy.agents.items())
        self._slots = RuleSlots(self.bounds, self.counts, max_states)
        self._reporter = Reporter(self.counts, self.derived, len(rules), self._slots, answers)
        self._twins = TwinJudge(self._slots)

    def settle(self, finding: Finding, answer: Answer | None) -> Finding | None:
        """Return what an answer makes of a finding that waited for it, None where nothing is left; count it."""
        bound = self._by_slot.get(finding.slot)
        return judged_finding(finding, answer) if bound is None else self._reporter.settle(bound, finding, answer)

    def asks_about(self, tool: str) -> bool:
        """Whether a rule that stops asks about the arguments of a tool."""
        plans = [self.local.calls[tool], *[group.index.calls[tool] for group in self.cross_session]]
        return any(plan is not None and plan.twins for plan in plans)

    def idle_of(self, session_id: str) -> float:
        """Return after how long a silence a session is over, or the state of a key: not before its rules' windows."""
        for group in self._long_keys:
            if group.owns(session_id):
                return group.memory
        return self.policy.idle

    @property
    def judges_parts(self) -> bool:
        """Whether any rule keeps a state per user-initiated part."""
        return bool(self._part_scoped)

    def _arrange(self) -> None:
        self.local = Index([bound for bound in self._active if "session" in bound.spec.key])
        self._part_scoped = _numbers([bound for bound in self.local.bounds if bound.part_scoped])
        self.cross_session = tuple(by_key(self._active, by_tenant=self.policy.by_tenant))
        self._long_keys = [group for group in self.cross_session if group.memory > self.policy.idle]
        self.late = LateQuestions(self._active, by_tenant=self.policy.by_tenant)

    def run(
        self,
        plan: Plan,
        event: Event,
        key_state: Session,
        memory: Set[int],
        out: Findings,
        objections: Objections | None = None,
        *,
        looked_closer: bool = False,
    ) -> None:
        """Run the rules of a plan over an event, and note what they have against it where ``objections`` are wanted.

        This is the hot path; ``_run_closely`` looks closer where that matters, and ``_run`` handles every other case.
        """
        if (key_state.cut or plan.twins) and not looked_closer:
            others = plan.twins and (key_state.twinned or (plan.asked is not None and plan.asked.may_get_others(event)))
            if key_state.cut or others:
                evaluation = Evaluation(event, key_state, memory, out, objections)
                self._run_closely(plan, event, evaluation, plan.twins if others else ())
                return
        if plan.watch is not None and not plan.watch.look(event, self.counts):
            plan.watch = None
        if (
            (plan.needs_content and (not event.captured or (plan.of_turns and lacks_content(event))))
            or (plan.reads_args and type(event.args) is str)  # type: ignore[union-attr]  # a plan for events of tools
            or (plan.needs_clock and event.time is None)
            or (plan.owned and event.agent not in self._agents and self.policy.agents.named(event.agent) is None)
            or (plan.needs_turn and key_state.turns == 0)
        ):
            self._run_all(plan, event, Evaluation(event, key_state, memory, out, objections))
            return
        answers = None if plan.loop is None else plan.loop.run(event, memory, key_state.slots)
        found = () if plan.texts is None else plan.texts.waiting_for(event)
        if answers is None and not plan.full and not found:
            return
        evaluation = Evaluation(event, key_state, memory, out, objections)
        if answers is not None:
            self._take(answers, evaluation)
        for bound, handle in plan.full:
            self._run(bound, handle, event, evaluation)
        for bound, handle in found:  # which wait for a text that the event has, or may have
            self.counts.texts[bound.spec.id] += 1
            self._run(bound, handle, event, evaluation, text_found=not lacks_text(event))

    def _run_closely(
        self, plan: Plan, event: Event, evaluation: Evaluation, twins: Sequence[tuple[Twin, Handler]]
    ) -> None:
        """Run a plan where the tool may get other arguments than those sent, or where rules forgot what was before.

        Twins are asked first: a call where one fires and its rule does not is contested.
        """
        key_state, objections = evaluation.key_state, evaluation.objections
        fired, taken = self._twins.ask(twins, event, evaluation)
        self.run(plan, event, key_state, evaluation.memory, evaluation.findings, objections, looked_closer=True)
        self._twins.settle(taken, key_state)
        if type(event) is not ToolCall:
            return
        if fired and objections is not None:
            against = {one.rule for one in objections}
            doubted = [twin.rule for twin in fired if twin.rule.number not in against]
            if doubted:
                self._reporter.contest(doubted, event, evaluation)
        if key_state.cut:
            self._doubt_cut(plan, event, evaluation)

    def _take(self, answers: list[HandlerAnswer], evaluation: Evaluation) -> None:
        """Take what the rules of the hot path answered, in the order of their answers."""
        for sort, rule, value in answers:
            bound: BoundRule = rule
            if sort == RAISED:
                self._fail(bound, value, evaluation)
            elif sort != ANSWERED:
                self._reporter.count_unevaluable(bound, evaluation, NO_FIELD)
            elif isinstance(value, Unsure):
                self._reporter.count_unsure(bound, value, evaluation)
            else:
                self._reporter.report(bound, value, evaluation, bound.number)

    def _run_all(self, plan: Plan, event: Event, evaluation: Evaluation) -> None:
        """Run a plan over an event that leaves something out; ``_run`` checks what each rule needs."""
        for bound, handle in plan.entries:
            self._run(bound, handle, event, evaluation)
        if plan.texts is not None:
            for bound, handle in plan.texts.entries:
                self._run(bound, handle, event, evaluation)

    def _run(
        self, bound: BoundRule, handle: Handler, event: Event, evaluation: Evaluation, *, text_found: bool = False
    ) -> None:
        """Run one rule with everything the engine adds to it: needs, gate, key, text, timer and `for`."""
        entered = self._enter(bound, handle, event, evaluation)
        if entered is None:
            return
        handle, address, inside, doubt = entered
        if inside and bound.gate is not None and bound.end is not None:
            self._slots.get(bound, address, evaluation.key_state).opened = True
        if not text_found and bound.spec.hold is None and not has_text(bound, event):
            self._take_silence(bound, event, evaluation, asked=inside)
            return
        key_state = evaluation.key_state
        slot = self._slots.get(bound, address, key_state)
        if bound.key is not None and bound.end is not None and bound.gate is None:
            slot.opened = True
        self._ask(bound, handle, event, evaluation, address, slot, inside, doubt)
        if bound.key is not None:
            self._slots.leave(bound, address, slot, key_state)

    def _ask(
        self,
        bound: BoundRule,
        handle: Handler,
        event: Event,
        evaluation: Evaluation,
        address: Address,
        slot: Slot,
        inside: bool,
        doubt: str,
    ) -> None:
        """Ask a rule about an event, and take what it answers."""
        key_state, state = evaluation.key_state, slot.state
        saved = encode(state) if bound.suspect and not bound.stateless else b""
        try:
            verdict = handle(event, state)
            if bound.timer is not None:
                self._slots.set_timer(bound, address, state, key_state)
        except Exception as error:  # noqa: BLE001  # ADR 0007
            if bound.suspect and not bound.stateless:
                slot.state = decode(saved, type(state))
            self._fail(bound, error, evaluation)
            return
        hit = self._settle(bound, verdict, event, evaluation, doubt, asked=inside)
        if key_state.forgotten is not None and inside and not isinstance(verdict, Unsure):
            hit = self._doubt_state(bound, handle, address, event, evaluation, hit)
        if bound.spec.hold is not None and inside:
            is_lost = bound.number in key_state.cut or self._slots.is_forgotten(bound, address, key_state)
            if not self._reporter.held(bound, hit, evaluation, slot, is_lost):
                return
        if hit is not None:
            self._reporter.report(bound, hit, evaluation, address)

    def _settle(
        self, bound: BoundRule, verdict: Verdict, event: Event, evaluation: Evaluation, doubt: str, *, asked: bool
    ) -> Hit | None:
        """Return the hit of a verdict, if it is one that stands; count what could not be judged."""
        if isinstance(verdict, Unsure):
            self._reporter.count_unsure(bound, verdict, evaluation)
            return None
        if isinstance(verdict, Hit):
            if not doubt:
                return verdict
            self._reporter.count_unevaluable(bound, evaluation, doubt)  # it fires, if the rule applies
        else:
            self._take_silence(bound, event, evaluation, asked=asked)
        return None

    def _take_silence(self, bound: BoundRule, event: Event, evaluation: Evaluation, *, asked: bool) -> None:
        """Count a rule that found nothing where that proves nothing."""
        if bound.needs_content and lacks_content(event):
            self._reporter.count_unevaluable(bound, evaluation, NO_CONTENT)
        elif bound.texts and lacks_text(event):
            self._reporter.count_unevaluable(bound, evaluation, NO_TEXT)
        elif asked and may_have_missed(bound, event):
            self._reporter.count_unevaluable(bound, evaluation, UNREADABLE)

    def _enter(
        self, bound: BoundRule, handle: Handler, event: Event, evaluation: Evaluation
    ) -> tuple[Handler, Address, bool, str] | None:
        """Return the handler, the address of its state, whether the gate is open, and why that is in doubt.

        None when nothing is to run.
        """
        address = bound.number if bound.key is None else bound.key(event)
        if address is None and event.captured and not is_unreadable(event) and not lacks_key(bound.spec.key, event):
            return None  # a call without such an argument is nothing to the rule, whatever else is missing
        known = self._judge_gate(bound, event, evaluation)
        if known is None:
            return None
        inside, doubt = known
        if not inside and not doubt:
            if bound.ungated is None:
                return None
            handle = bound.ungated
        if address is None:
            if lacks_key(bound.spec.key, event):
                self._reporter.count_unevaluable(bound, evaluation, NO_KEY)
            elif inside and bound.needs_content and (not event.captured or is_unreadable(event)):
                self._reporter.count_unevaluable(bound, evaluation, UNREADABLE)
            return None
        return handle, address, inside, doubt

    def _judge_gate(self, bound: BoundRule, event: Event, evaluation: Evaluation) -> tuple[bool, str] | None:
        """Return whether the gate of a rule is open, and why that is in doubt; None where it cannot see the event.

        A rule that looks at this event alone is asked in doubt: if it does not fire, the gate does not matter.
        """
        turns, memory, reporter = evaluation.key_state.turns, evaluation.memory, self._reporter
        if not self._lacks_something(bound, event, turns):
            is_open = bound.gate is None or bound.gate(event, memory)
            if not is_open and bound.may_open is not None and bound.may_open(event, memory):
                reporter.count_unevaluable(bound, evaluation, NO_FIELD)
            return is_open, ""
        inside = judge_gate(bound, event, turns, memory)
        if lacks := rule_lacks(bound, event):
            # Outside the gate it could not fire, but it could have been satisfied.
            if inside is not False or bound.ungated is not None:
                reporter.count_unevaluable(bound, evaluation, lacks, about_event=inside is not False)
            return None
        if inside is not None:
            return inside, ""
        lacks = gate_lacks(bound, event, turns, memory)
        if bound.stateless and bound.key is None:
            return False, lacks
        reporter.count_unevaluable(bound, evaluation, lacks)
        return False, ""

    def _doubt_state(
        self,
        bound: BoundRule,
        handle: Handler,
        address: Address,
        event: Event,
        evaluation: Evaluation,
        hit: Hit | None,
    ) -> Hit | None:
        """Return the hit where it stands although the rule has forgotten what it knew of the event's key.

        One that a blank state gives too tells of what is missing there. A call that passes may rest on it as well.
        """
        if not bound.recalls or not self._slots.is_forgotten(bound, address, evaluation.key_state):
            return hit
        try:
            if hit is None:
                is_unknown = type(event) is ToolCall and bound.rule.rests_on_memory(event)
            else:
                is_unknown = not bound.stateless and isinstance(handle(event, bound.new_state()), Hit)
        except Exception as error:  # noqa: BLE001  # ADR 0007
            self._fail(bound, error, evaluation)
            return hit
        if is_unknown:
            self._reporter.count_unevaluable(bound, evaluation, FORGOTTEN)
        return None if is_unknown else hit

    def _doubt_cut(self, plan: Plan, call: ToolCall, evaluation: Evaluation) -> None:
        """Count a call that rules let pass although they have forgotten what was before, and judge by that."""
        key_state = evaluation.key_state
        objecting = {objection.rule for objection in evaluation.objections or ()}
        for bound in plan.rules:
            if bound.number not in key_state.cut or bound.number in objecting:
                continue
            try:
                if not bound.recalls or not bound.rule.rests_on_memory(call):
                    continue
            except Exception as error:  # noqa: BLE001  # ADR 0007
                self._fail(bound, error, evaluation)
                continue
            is_addressed = bound.key is None or bound.key(call) is not None
            if is_addressed and has_text(bound, call) and may_be_asked(bound, call, key_state.turns, evaluation.memory):
                self._reporter.count_unevaluable(bound, evaluation, FORGOTTEN)

    def _lacks_something(self, bound: BoundRule, event: Event, turns: int) -> bool:
        """Whether the event leaves something out that the rule or its gate may need."""
        return (
            (bound.needs_content and (not event.captured or is_unreadable(event)))
            or (bound.needs_clock and event.time is None)
            or (bound.needs_turn and turns == 0)
            or (bound.spec.agent != "" and self.policy.agents.named(event.agent) is None)
        )

    def count_keyless(
        self, group: CrossSessionRules, event: Event, key_state: Session, objections: Objections | None = None
    ) -> None:
        """Count an event that rules across sessions cannot judge because it lacks the agent or label of their key."""
        plan = group.index.plan(event)
        if plan is not None and lacks_key(group.key, event):
            evaluation = Evaluation(event, key_state, key_state.memory, [], objections)
            for bound, _ in plan.entries:
                self._reporter.count_unevaluable(bound, evaluation, NO_KEY)

    def fire(self, key_state: Session, now: float, out: Findings, after: float = -inf) -> None:
        """Call ``on_deadline`` of the rules whose deadline is after one time, and not after another, in their order."""
        timers = key_state.timers
        while due := [(time, str(address), address) for address, time in timers.items() if after < time <= now]:
            deadline, _, address = min(due)
            bound = self.bounds[number_of(address)]
            del timers[address]
            state = state_at(bound, key_state.slots.get(address))
            evaluation = Evaluation(None, key_state, key_state.memory, out)
            try:
                hit = bound.rule.on_deadline(deadline, state)
                self._slots.set_timer(bound, address, state, key_state)
            except Exception as error:  # noqa: BLE001  # ADR 0007
                self._fail(bound, error, evaluation)
                continue
            # A deadline that does not move forward would be called for ever.
            if address in timers and timers[address] <= deadline:
                del timers[address]
            if hit is not None:
                self._reporter.report(bound, hit, evaluation, address, at="deadline", time=deadline)

    def restore(self, key_state: Session) -> None:
        """Set what is made from the slots of a restored key state."""
        self._slots.restore(key_state)

    def end(self, key_state: Session, end: SessionEnd, out: Findings, *, index: Index | None = None) -> None:
        """Call ``on_session_end`` of the rules: the scope of a whole trace ends.

        What listens to responses could not judge a session that told of calls and of no response.
        """
        for bound in (index or self.local).ends:
            self._end_rule(bound, key_state, end, out)
        if index is None and key_state.turns == 0 and (key_state.part_active or key_state.part):
            evaluation = Evaluation(None, key_state, key_state.memory, out)
            for bound in self.local.listening:
                self._reporter.count_unevaluable(bound, evaluation, NO_RESPONSES, about_event=False)

    def end_part(self, key_state: Session, end: SessionEnd, out: Findings) -> None:
        """Call ``on_session_end`` of the rules that keep a state per user-initiated part, and forget those states."""
        for bound in self.local.ends:
            if bound.part_scoped:
                self._end_rule(bound, key_state, end, out)
        self._slots.forget_all(key_state, self._part_scoped)

    def _end_rule(self, bound: BoundRule, key_state: Session, end: SessionEnd, out: Findings) -> None:
        """Judge the end of each state of a rule that an event has opened, or of its only one."""
        slots = key_state.slots
        if bound.key is not None:
            opened = [one for one, slot in slots.items() if slot.opened and number_of(one) == bound.number]
            for address in sorted(opened, key=str):
                self._judge_end(bound, address, end, key_state, out)
            return
        slot = slots.get(bound.number)
        # A part without a turn or a call is not judged; a whole trace always is.
        is_owed = key_state.part_active or not bound.part_scoped
        if is_owed if bound.gate is None else slot is not None and slot.opened:
            self._judge_end(bound, bound.number, end, key_state, out)

    def _judge_end(
        self, bound: BoundRule, address: Address, end: SessionEnd, key_state: Session, out: Findings
    ) -> None:
        try:
            hit = bound.rule.on_session_end(end, state_at(bound, key_state.slots.get(address)))
        except Exception as error:  # noqa: BLE001  # ADR 0007
            self._fail(bound, error, Evaluation(end, key_state, key_state.memory, out))
            return
        if hit is None:
            return
        evaluation = Evaluation(None, key_state, key_state.memory, out)
        if bound.number in key_state.unevaluable or key_state.seq == 0:
            # What is missing may have been in an event that could not be judged, or that nobody knows any more.
            self._reporter.count_unevaluable(bound, evaluation, NOT_ALL_JUDGED)
        else:
            self._reporter.report(bound, hit, evaluation, address, at="end", time=end.time)

    def _fail(self, bound: BoundRule, error: Exception, evaluation: Evaluation) -> None:
        """Report an exception of a rule; its state is saved before each of its handlers from now on."""
        self._reporter.fail(bound, error, evaluation)
        if not bound.suspect:
            bound.mark_suspect()
            self._arrange()


def _numbers(bounds: Sequence[BoundRule]) -> frozenset[int]:
    """Return the numbers of rules and of their twins."""
    twins = [bound.twin.bound.number for bound in bounds if bound.twin is not None]
    return frozenset([*[bound.number for bound in bounds], *twins])
