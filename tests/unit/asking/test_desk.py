"""Questions wait on disk, are asked once, within budgets that nothing exceeds, and their answers stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.asking.desk import NANOS, AnswerRecord, Budget, QuestionDesk, give_back, reserve, worst_case
from stream_guard.history import inquiries, verdicts
from stream_guard.history.alert_rows import insert
from stream_guard.history.database import Database, open_database
from stream_guard.judge.counts import Counts
from stream_guard.judge.findings import judged_finding
from stream_guard.judge.model import Finding, Inquiry, Severity
from stream_guard.judge.ports import Answer
from stream_guard.ports import Question
from stream_guard.settings import JudgeSettings

DAY = 86_400.0
NOON = 20_000 * DAY + DAY / 2


class Clock:
    """A time that the test moves."""

    def __init__(self) -> None:
        self.now = NOON
        self.late: list[float] = []  # what is said first: looks that were taken before it was moved

    def __call__(self) -> float:
        return self.late.pop() if self.late else self.now


class StandIn:
    """A judge in this process: what it says, and what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer | None:
        self.asked.append(question)
        return self.answers.pop(0) if self.answers else says(violated=True)


def says(*, violated: bool | None, cost: float = 0.001, counted: bool = True, retry: float | None = None) -> Answer:
    return Answer(
        violated=violated, confidence=0.9, explanation="so", cost_usd=cost, is_counted=counted, retry_after=retry
    )


def finding(number: int = 0, *, rule: str = "kind", text: str = "", tenant: str = "", **budget: Any) -> Finding:
    inquiry = Inquiry(
        words="Be kind.", excerpt=(f'{{"text": "{text or number}"}}',), **{"calls_per_day": 100, **budget}
    )
    return Finding(
        alert_id=f"{rule}-{number}",
        rule_id=rule,
        slot=rule,
        kind="must_satisfy_judge",
        severity=Severity.ERROR,
        session_id="s",
        event_id=f"e{number}",
        index=None,
        time=1.0,
        detail="Be kind.",
        labels={"tenant": tenant} if tenant else {},
        inquiry=inquiry,
    )


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(str(tmp_path / "history.db"))
    yield opened
    opened.close()


@contextmanager
def asking(database: Database, judge: StandIn, **settings: Any) -> Iterator[QuestionDesk]:
    """A desk that asks until it is left."""
    clock, counts = settings.pop("clock", Clock()), settings.pop("counts", None)
    chosen = JudgeSettings(**{"url": "http://judge", "model": "m", "concurrency": 2, "patience": 20.0, **settings})
    desk = QuestionDesk(database, chosen, judge, owner="test", counts=counts, clock=clock)
    desk.start()
    try:
        yield desk
    finally:
        desk.close()


def ask_all(desk: QuestionDesk, findings: list[Finding]) -> dict[str, Answer | None]:
    desk.put(findings, "v1")
    assert desk.drain()
    return {one.finding.alert_id: one.answer for one in desk.take_all()}


def test_an_answer_stays_and_nobody_is_asked_again(database: Database) -> None:
    first, second = StandIn(), StandIn()
    with asking(database, first) as desk:
        answers = ask_all(desk, [finding(0)])
    with asking(database, second) as desk:
        again = ask_all(desk, [finding(1, text="0")])
    assert answers["kind-0"] == again["kind-1"] is not None
    assert (len(first.asked), len(second.asked)) == (1, 0)
    record = AnswerRecord(database, "m")
    assert record.find(finding(0).inquiry.digest) == answers["kind-0"]  # type: ignore[union-attr]
    assert AnswerRecord(database, "another").find(finding(0).inquiry.digest) is None  # type: ignore[union-attr]


def test_findings_with_one_question_wait_for_one_call(database: Database) -> None:
    judge = StandIn()
    with asking(database, judge) as desk:
        answers = ask_all(desk, [finding(number, text="same") for number in range(5)])
    assert len(answers) == 5
    assert len(judge.asked) == 1


def test_what_was_taken_and_not_told_comes_again_after_a_crash(database: Database) -> None:
    clock = Clock()
    with asking(database, StandIn(), clock=clock) as desk:
        desk.put([finding(0)], "v1")
        assert desk.drain()
        assert [one.finding.alert_id for one in desk.take()] == ["kind-0"]
        assert desk.take() == []
        clock.now += 120
        [settled] = desk.take()
        desk.told([settled])
        clock.now += 120
        assert desk.take() == []
    assert settled.finding == finding(0)
    assert settled.policy_version == "v1"


@pytest.mark.parametrize(
    ("settings", "budget"),
    [({"calls_per_day": 3}, {}), ({}, {"calls_per_day": 3}), ({"tenant_calls_per_day": 3}, {})],
    ids=["all", "rule", "tenant"],
)
def test_no_more_calls_are_made_than_a_budget_allows(
    database: Database, settings: dict[str, Any], budget: dict[str, Any]
) -> None:
    judge, counts = StandIn(), Counts()
    with asking(database, judge, counts=counts, **settings) as desk:
        answers = ask_all(desk, [finding(number, tenant="t", **budget) for number in range(8)])
        assert desk.put([finding(9, tenant="t", **budget)], "v1") == [finding(9, tenant="t", **budget)]
    assert len(judge.asked) == 3
    assert sorted(answer is not None for answer in answers.values()) == [False] * 5 + [True] * 3
    assert counts.inquiries["kind", "broken"] == 3
    assert counts.inquiries["kind", "no_budget"] == 6


def test_a_tenant_without_a_budget_of_its_own_does_not_use_up_that_of_others(database: Database) -> None:
    judge = StandIn()
    with asking(database, judge, tenant_calls_per_day=2) as desk:
        ask_all(desk, [finding(number, tenant="loud") for number in range(6)])
        answers = ask_all(desk, [finding(10, tenant="quiet")])
    assert answers["kind-10"] is not None


def test_a_question_of_a_new_day_is_not_counted_on_the_day_before(database: Database) -> None:
    clock = Clock()
    chosen = {"clock": clock, "calls_per_day": 1, "concurrency": 1}
    with asking(database, StandIn(), **chosen) as desk:
        assert ask_all(desk, [finding(0)])["kind-0"] is not None
    settings = JudgeSettings(url="http://judge", model="m", calls_per_day=1, concurrency=1, patience=20.0)
    desk = QuestionDesk(database, settings, StandIn(), owner="test", clock=clock)
    clock.now += DAY
    desk.put([finding(1)], "v1")
    clock.late = [NOON]  # whoever asks looked at the clock before midnight
    desk.start()
    assert desk.drain()
    desk.close()
    assert desk.take_all()[0].answer is not None


def test_a_new_day_has_a_new_budget(database: Database) -> None:
    judge, clock = StandIn(), Clock()
    with asking(database, judge, clock=clock, calls_per_day=1) as desk:
        assert sum(one is not None for one in ask_all(desk, [finding(0), finding(1)]).values()) == 1
        clock.now += DAY
        [unanswered] = [number for number in (0, 1) if desk.find(finding(number).inquiry.digest) is None]  # type: ignore[union-attr]
        again = finding(5, text=str(unanswered))
        assert ask_all(desk, [again])["kind-5"] is not None


def test_what_a_call_did_not_cost_can_be_spent_again(database: Database) -> None:
    settings = JudgeSettings(input_price=1.0, output_price=1.0)
    amount = worst_case("Be kind.", finding(0).inquiry.excerpt, settings)  # type: ignore[union-attr]
    judge = StandIn(*[says(violated=True, cost=amount // 4 / NANOS)] * 100)
    spend = {"input_price": 1.0, "output_price": 1.0, "dollars_per_day": 2 * amount / NANOS, "concurrency": 1}
    with asking(database, judge, **spend) as desk:
        ask_all(desk, [finding(number) for number in range(9)])
    # Each takes the worst case and gives three quarters back: after the fifth, less than the worst case is left.
    assert len(judge.asked) == 5


def test_a_call_whose_cost_nobody_tells_has_cost_the_worst_case(database: Database) -> None:
    settings = JudgeSettings(input_price=1.0, output_price=1.0)
    amount = worst_case("Be kind.", finding(0).inquiry.excerpt, settings)  # type: ignore[union-attr]
    judge = StandIn(*[says(violated=None, counted=False)] * 100)
    spend = {"input_price": 1.0, "output_price": 1.0, "dollars_per_day": 3.5 * amount / NANOS}
    with asking(database, judge, **spend) as desk:
        ask_all(desk, [finding(number) for number in range(9)])
    assert len(judge.asked) == 3


def test_a_process_that_dies_in_a_call_has_spent_its_budget_and_the_question_goes_to_another(
    database: Database,
) -> None:
    clock, judge = Clock(), StandIn()
    dead = QuestionDesk(database, JudgeSettings(url="x", model="m", calls_per_day=2), judge, owner="test", clock=clock)
    dead.put([finding(0), finding(1)], "v1")
    assert dead._claim() is not None  # and nothing more is heard of it
    clock.now += 3600
    with asking(database, judge, clock=clock, calls_per_day=2) as desk:
        assert desk.drain()
        answers = {one.finding.alert_id: one.answer for one in desk.take_all()}
    assert len(judge.asked) == 1  # of the two calls of the day, one was the dead one's
    assert sorted(answer is None for answer in answers.values()) == [False, True]


def test_a_question_is_given_up_after_three_processes_died_with_it(database: Database) -> None:
    clock = Clock()
    desk = QuestionDesk(database, JudgeSettings(url="x", model="m"), StandIn(), owner="test", clock=clock)
    desk.put([finding(0)], "v1")
    for _ in range(3):
        assert desk._claim() is not None
        clock.now += 3600
    assert desk._claim() is None
    [settled] = desk.take()
    assert settled.answer is None


def test_an_endpoint_that_asks_to_wait_is_asked_again_after_that(database: Database) -> None:
    clock, judge = Clock(), StandIn(says(violated=None, cost=0.0, retry=7.0))
    desk = QuestionDesk(database, JudgeSettings(url="x", model="m"), judge, owner="test", clock=clock)
    desk.put([finding(0)], "v1")
    claim = desk._claim()
    assert claim is not None
    desk._settle(claim, desk._ask(claim.inquiry))
    clock.now += 6
    assert desk._claim() is None
    clock.now += 1
    assert desk._claim() is not None


def test_a_judge_that_raises_has_given_no_answer(database: Database) -> None:
    def failing(question: Question) -> Answer:
        raise RuntimeError(f"key sk-{question.id} was refused")

    with asking(database, failing) as desk:  # type: ignore[arg-type]
        assert ask_all(desk, [finding(0)]) == {"kind-0": None}
    [asked] = inquiries.listing(database)
    assert asked.explanation == "the judge failed: RuntimeError"


def test_a_flood_of_questions_writes_no_more_than_so_many(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_guard.asking.desk._MOST_OPEN", 20)
    desk = QuestionDesk(database, JudgeSettings(url="x", model="m", calls_per_day=10**6), StandIn(), owner="test")
    left = desk.put([finding(number, calls_per_day=10**6) for number in range(50)], "v1")
    assert len(left) == 30
    assert len(inquiries.listing(database)) == 20


NAN, INFINITE = float("nan"), float("inf")


class Odd:
    """What looks like an answer until it is read."""

    violated, confidence, explanation, tokens, is_counted, retry_after = True, 1.0, "", 0, True, None

    @property
    def cost_usd(self) -> float:
        raise SystemExit(3)


@pytest.mark.parametrize(
    "returned",
    [
        *(Answer(violated=True, confidence=1.0, cost_usd=odd, is_counted=True) for odd in (NAN, INFINITE, -1.0, 1e300)),
        *(Answer(violated=True, confidence=odd, is_counted=True) for odd in (NAN, -INFINITE, 1.5, -0.1)),
        *(Answer(violated=True, confidence=1.0, tokens=odd, is_counted=True) for odd in (-1, 2**70)),
        Answer(violated=None, confidence=0.0, retry_after=NAN, is_counted=True),
        Answer(violated=True, confidence=1.0, cost_usd="0.1", is_counted=True),  # type: ignore[arg-type]
        Answer(violated=True, confidence=1.0, tokens=NAN, is_counted=True),  # type: ignore[arg-type]
        Answer(violated="no", confidence=1.0, is_counted=True),  # type: ignore[arg-type]
        Answer(violated=True, confidence=1.0, explanation=None, is_counted=True),  # type: ignore[arg-type]
        *({}, [], "yes", 0, False, object(), Answer, Odd()),
        *(SystemExit(1), KeyboardInterrupt(), GeneratorExit(), RecursionError(), StopIteration(), MemoryError()),
    ],
    ids=lambda returned: type(returned).__name__,
)
def test_what_is_no_answer_costs_the_worst_case_and_ends_no_thread(database: Database, returned: Any) -> None:
    def judge(question: Question) -> Any:
        if "l1" in question.text:
            return says(violated=True, cost=0.0)
        if isinstance(returned, BaseException):
            raise returned
        return returned

    settings = {"concurrency": 1, "input_price": 1.0, "output_price": 1.0, "dollars_per_day": 1.0}
    counts = Counts()
    with asking(database, judge, counts=counts, **settings) as desk:  # type: ignore[arg-type]
        answers = ask_all(desk, [finding(0, text="l0")])
        answers |= ask_all(desk, [finding(1, text="l1")])  # by the same thread
    assert answers["kind-0"] is None
    assert answers["kind-1"] is not None
    assert counts.inquiries["kind", "no_answer"] == 1
    [first] = [one for one in inquiries.listing(database) if "l0" in one.excerpt[0]]
    amount = worst_case(first.words, first.excerpt, desk._settings) / NANOS
    assert (first.state, first.cost_usd, first.tokens) == ("failed", amount, 0)
    assert counts.judge_dollars["kind"] == amount


def test_an_answer_that_comes_late_changes_no_answer(database: Database) -> None:
    clock = Clock()
    desk = QuestionDesk(database, JudgeSettings(url="x", model="m"), StandIn(), owner="test", clock=clock)
    desk.put([finding(0)], "v1")
    slow = desk._claim()
    clock.now += 3600
    quick = desk._claim()
    assert slow is not None
    assert quick is not None
    desk._settle(quick, says(violated=True))
    desk._settle(slow, says(violated=False))
    assert desk.find(finding(0).inquiry.digest).violated is True  # type: ignore[union-attr]


def test_budgets_take_all_or_nothing(database: Database) -> None:
    wide, narrow = Budget("all", "", 10, None), Budget("rule", "r", 1, None)
    with database.transaction() as statements:
        assert reserve(statements, (wide, narrow), "d", 5) == ""
        assert "rule r" in reserve(statements, (wide, narrow), "d", 5)
        assert statements.run("SELECT calls, nanos FROM sg_budgets WHERE scope = 'all'") == [(1, 5)]
        give_back(statements, (wide, narrow), "d", 3)
        assert statements.run("SELECT nanos FROM sg_budgets ORDER BY scope") == [(2,), (2,)]


def test_verdicts_of_people_are_held_against_the_judges(database: Database) -> None:
    judge = StandIn(says(violated=True), says(violated=True), says(violated=True), says(violated=False))
    with asking(database, judge, concurrency=1) as desk:
        answers = ask_all(desk, [finding(number) for number in range(4)])

    def told(number: int) -> Finding:
        found = judged_finding(finding(number), answers[f"kind-{number}"])
        assert found is not None
        return found

    with database.transaction() as statements:
        for number in range(3):
            insert(statements, sg.make_alert(told(number), "v1"), 1.0)
    for number, word in ((0, "right"), (1, "wrong"), (2, "benign")):
        verdicts.give(database, f"kind-{number}", word, by="ann", time=2.0)  # type: ignore[arg-type]
    [counted] = inquiries.agreements(database)
    assert (counted.asked, counted.broken, counted.kept) == (4, 3, 1)
    assert (counted.agreed, counted.disagreed) == (1, 2)
    assert counted.cost_per_alert == pytest.approx(0.004 / 3)
