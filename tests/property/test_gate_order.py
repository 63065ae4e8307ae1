"""No order of questions, repeats, restarts, answers, policies and ends gets a call executed that is forbidden."""

from __future__ import annotations

import json
from collections import Counter
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.guard.reviews import Reviews
from stream_guard.history.database import open_database
from stream_guard.history.records import AnswerRefusedError
from stream_guard.judge.limits import FRESH
from stream_guard.judge.model import Action, SessionEnd, ToolCall, ToolResult, Turn
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import ReviewSettings
from stream_guard.storage.stores import MemoryStore

REGISTRY = build_registry()
_BIG = {"when": {"tool_name_in": ["pay"], "arg_gt": {"path": "amount", "value": 5}}}
POLICIES: Final = [
    load_policy(json.dumps({"rules": rules}), REGISTRY, file="p.json")
    for rules in (
        [
            {"id": "big", "kind": "tool_guard", "params": _BIG, "then": "pause"},
            {"id": "rm", "kind": "no_call", "params": {"tool": "rm"}, "then": "block"},
            {"id": "bomb", "kind": "no_call", "params": {"tool": "bomb"}, "then": "terminate_session"},
        ],
        [
            {"id": "big", "kind": "tool_guard", "params": _BIG, "then": "block"},
            {"id": "bomb", "kind": "no_call", "params": {"tool": "bomb"}, "then": "block"},
        ],
    )
]
# What each policy says of a call; the arguments are small, or not, or nobody knows.
SMALL: Final[tuple[Any, ...]] = ({"amount": 1}, '{"amount": 1}', {}, "", '{"amount": 5, "note": "\\u00e9"}')
BIG: Final[tuple[Any, ...]] = ({"amount": 10}, {"amount": 11}, '{"amount": 10}', '{"amount": Infinity}')
UNKNOWN: Final[tuple[Any, ...]] = ('{"amount": 10', "amount=10", '{"amount": NaN}')
CONTESTED: Final[tuple[Any, ...]] = ('{"amount": 10, "amount": 1}', '{"amount": 1, "amount": 10}')
VERDICTS: Final = [
    {("pay", "big"): Action.PAUSE, ("pay", "unknown"): Action.PAUSE, "rm": Action.BLOCK, "bomb": Action.BLOCK},
    {("pay", "big"): Action.BLOCK, ("pay", "unknown"): Action.BLOCK, "bomb": Action.BLOCK},
]


def verdict(policy: int, tool: str, sort: str) -> Action:
    if sort == "contested":
        return Action.BLOCK
    said = VERDICTS[policy]
    return said.get(tool) or said.get((tool, sort)) or Action.ALLOW


sorted_args = st.one_of(
    *(
        st.tuples(st.just(sort), st.sampled_from(values))
        for sort, values in (("small", SMALL), ("big", BIG), ("unknown", UNKNOWN), ("contested", CONTESTED))
    )
)
sessions = st.sampled_from(["s1", "s2"])
call_ids = st.sampled_from(["", "c1", "c1", "c2"])
event_ids = st.sampled_from(["", "", "e1"])
tools = st.sampled_from(["pay", "pay", "pay", "rm", "rm", "look", "bomb"])


Question: TypeAlias = tuple[str, str, str, str, tuple[str, Any]]
# A few questions that lie close together, so that searches meet them again, and all others.
CLOSE: Final[list[Question]] = [
    ("s1", "c1", "", "rm", ("small", {"amount": 1})),
    ("s1", "c1", "", "pay", ("big", {"amount": 10})),
    ("s1", "c1", "", "pay", ("big", {"amount": 11})),
    ("s1", "", "e1", "pay", ("big", {"amount": 10})),
    ("s1", "", "e1", "rm", ("big", {"amount": 10})),
    ("s1", "c1", "", "pay", ("small", {"amount": 1})),
    ("s1", "c1", "", "pay", ("contested", '{"amount": 10, "amount": 1}')),
    ("s1", "", "", "pay", ("big", {"amount": 10})),
    ("s1", "c2", "", "bomb", ("small", {"amount": 1})),
]
questions = st.one_of(
    st.sampled_from(CLOSE), st.sampled_from(CLOSE), st.tuples(sessions, call_ids, event_ids, tools, sorted_args)
)


def same(args: Any) -> str:
    """Return what the tool gets, as a key."""
    value = json.loads(args) if isinstance(args, str) and args.startswith("{") and args.endswith("}") else args
    return json.dumps(value or {}, sort_keys=True)


class GateOrder(RuleBasedStateMachine):
    """A gate with a history, and a guard alone, asked the same; beside them what may run at most."""

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory(prefix="gate-")
        self.database = open_database(str(Path(self.folder.name) / "history.db"))
        self.saved, self.saved_alone = MemoryStore(), MemoryStore()
        self.now, self.version = 1_700_000_000.0, 0
        self.ended: set[str] = set()
        self.alone_ended: set[str] = set()
        self.approved: Counter[tuple[Any, ...]] = Counter()  # approvals that nobody has used, by what they are for
        self.waiting: dict[str, tuple[Any, ...]] = {}  # what open reviews are about
        self.given: dict[tuple[Any, ...], float] = {}  # questions that got a yes, and when, until their result
        self.asked: list[Question] = []
        self._open()

    def _open(self) -> None:
        policy = POLICIES[self.version]
        self.guard = Guard(policy, store=self.saved, clock=lambda: self.now)
        reviews = Reviews(self.database, ReviewSettings(timeout=1000), clock=lambda: self.now)
        self.gate = Gate(policy, self.database, guard=self.guard, reviews=reviews, clock=lambda: self.now)
        self.alone = Guard(policy, store=self.saved_alone, clock=lambda: self.now)

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.close()
            self.folder.cleanup()

    @rule(question=questions)
    def check(self, question: Question) -> None:
        self.asked.append(question)
        session, call_id, event_id, tool, (sort, args) = question
        asked = {"session_id": session, "call_id": call_id, "event_id": event_id, "tool": tool, "args": args}
        wanted = verdict(self.version, tool, sort)
        self._check_alone(session, wanted, asked)
        ruling = self.gate.check(ToolCall(**asked))
        binding = (session, tool, same(args), self.version)
        exactly = (*binding, call_id, event_id)
        if session in self.ended:
            assert ruling.action is Action.TERMINATE_SESSION
        elif wanted is Action.ALLOW:
            assert ruling.action is Action.ALLOW
        elif ruling.action is Action.ALLOW:
            assert wanted is Action.PAUSE
            if not event_id or self.now - self.given.get(exactly, -inf) >= FRESH:
                assert self.approved[binding] > 0
                self.approved[binding] -= 1
                self.given[exactly] = self.now
        if ruling.action is Action.TERMINATE_SESSION:
            self.ended.add(session)
        if ruling.review is not None and ruling.action is Action.PAUSE:
            self.waiting[ruling.review.id] = binding

    @rule(data=st.data(), approve=st.booleans())
    def ask_again(self, data: st.DataObject, approve: bool) -> None:
        """Ask a question that was asked before, perhaps after a person said yes to all that waits."""
        if not self.asked:
            return
        if approve:
            for review in sorted(self.waiting):
                self._answer(review, "approve")
        self.check(data.draw(st.sampled_from(self.asked[-3:])))

    def _check_alone(self, session: str, wanted: Action, asked: dict[str, Any]) -> None:
        decision = self.alone.check(ToolCall(**asked))
        assert decision.action is not Action.ALLOW or (wanted is Action.ALLOW and session not in self.alone_ended)
        assert decision.action is Action.ALLOW or wanted is not Action.ALLOW or session in self.alone_ended
        if decision.session_ended:
            self.alone_ended.add(session)

    @rule(session=sessions, call_id=call_ids, tool=tools, given=sorted_args)
    def announce(self, session: str, call_id: str, tool: str, given: tuple[str, Any]) -> None:
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": given[1]}
        for observe in (self.gate.observe, self.alone.observe):
            observe(Turn(session_id=session, response={"content": [block], "stop_reason": "tool_use"}))

    @rule(session=sessions, call_id=st.sampled_from(["c1", "c2"]))
    def result(self, session: str, call_id: str) -> None:
        for observe in (self.gate.observe, self.alone.observe):
            observe(ToolResult(session_id=session, call_id=call_id, output="done"))
        self.given = {one: at for one, at in self.given.items() if (one[0], one[4]) != (session, call_id)}

    @rule(session=sessions)
    def end_at_source(self, session: str) -> None:
        for observe in (self.gate.observe, self.alone.observe):
            observe(SessionEnd(session_id=session))

    @rule(answer=st.sampled_from(["approve", "approve", "reject"]), data=st.data())
    def answer(self, answer: str, data: st.DataObject) -> None:
        if not self.waiting:
            return
        self._answer(data.draw(st.sampled_from(sorted(self.waiting))), answer)

    def _answer(self, review: str, answer: str) -> None:
        binding = self.waiting[review]
        try:
            if answer == "approve":
                self.gate.reviews.approve(review, by="ann")
                self.approved[binding] += 1
            else:
                self.gate.reviews.reject(review, by="ann")
        except AnswerRefusedError:
            pass  # it was answered, is void or has expired
        del self.waiting[review]

    @rule(save=st.booleans(), version=st.sampled_from([0, 0, 1]))
    def restart(self, save: bool, version: int) -> None:
        if save:
            self.guard.commit()
            self.alone.commit()
        self.version = version
        self._open()

    @rule(version=st.sampled_from([0, 1]))
    def change_policy(self, version: int) -> None:
        """Go on under another policy, without a restart."""
        self.version = version
        self.gate.use(self.guard.judge_for(POLICIES[version]))
        self.alone.use(self.alone.judge_for(POLICIES[version]))

    @rule()
    def save(self) -> None:
        self.guard.commit()
        self.alone.commit()

    @rule(seconds=st.sampled_from([1.0, 2000.0]))
    def later(self, seconds: float) -> None:
        self.now += seconds


def test_no_order_of_questions_gets_a_forbidden_call_allowed() -> None:
    run_state_machine_as_test(
        GateOrder, settings=settings(max_examples=2 * settings().max_examples, stateful_step_count=20, deadline=None)
    )
