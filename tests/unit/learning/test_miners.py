"""Each miner by itself: what it finds, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from stream_guard.judge.model import Event, Json, ToolCall, Turn
from stream_guard.learning.candidates import RuleCandidate, edge, surprise
from stream_guard.learning.choosing import no_accidents, upper_share
from stream_guard.learning.collecting import collect
from stream_guard.learning.facts import Facts
from stream_guard.learning.learning import FOLDS, find_tasks, fold_of
from stream_guard.learning.miners.arguments import mine_arguments, mine_callers
from stream_guard.learning.miners.counts import mine_bands, mine_counts
from stream_guard.learning.miners.lookups import mine_provenance
from stream_guard.learning.miners.orders import mine_orders, mine_sequences
from tests.unit.learning.desk import Desk


def facts_of(sessions: Iterable[list[Event]]) -> Facts:
    facts = collect(event for session in sessions for event in session)
    find_tasks(facts.sessions)
    return facts


def calls(name: str, *tools: str | tuple[str, Json], agent: str = "", every: float | None = None) -> list[Event]:
    return [
        ToolCall(
            session_id=name,
            call_id=f"c{place}",
            tool=tool if isinstance(tool, str) else tool[0],
            args=None if isinstance(tool, str) else tool[1],
            agent=agent,
            time=None if every is None else place * every,
        )
        for place, tool in enumerate(tools)
    ]


def by_id(candidates: Iterable[RuleCandidate]) -> dict[str, RuleCandidate]:
    return {candidate.id.removeprefix("learned-"): candidate for candidate in candidates}


def test_an_order_that_follows_from_two_others_is_left_out() -> None:
    found = by_id(mine_orders(facts_of(calls(f"s{number}", "look", "confirm", "refund") for number in range(6))))
    assert set(found) == {"before-confirm-refund", "before-look-confirm"}
    assert found["before-look-confirm"].support == 6


def test_two_tools_that_come_in_any_order_have_none() -> None:
    dice = Random(1)
    sessions = [calls(f"s{number}", *dice.sample(["look", "confirm"], 2)) for number in range(40)]
    assert by_id(mine_orders(facts_of(sessions))) == {}


def test_one_of_several_tools_that_open_sessions_says_little_by_coming_before() -> None:
    def before_check(*openers: str) -> float:
        """A third of the sessions check and pay; which tool opens them is the same for each third."""
        rest = (("check", "pay"), ("look",), ("look",))
        sessions = (calls(f"s{number}", openers[number % 3], *rest[number % 3]) for number in range(45))
        surprise = by_id(mine_orders(facts_of(sessions)))["before-greet-check"].surprise
        assert surprise is not None
        return surprise

    habit, choice = before_check("greet", "greet", "greet"), before_check("greet", "welcome", "greet")
    assert choice < 7 < habit


def _lookup(desk: Desk, number: int, source: str) -> str:
    """Learn an account from the user or from one of the tools."""
    account = f"AC-{number}-{source}"
    desk.user(f"use {account}" if source == "user" else "use mine")
    if source != "user":
        desk.call(source, {"q": f"mine {number}"}, {"account": account})
    return account


def _pays(number: int, source: str, *tools: str) -> list[Event]:
    desk = Desk(f"s{number}")
    account = _lookup(desk, number, source)
    for tool in tools:
        desk.call(tool, {"account": account})
    return desk.events


def test_values_of_one_name_come_from_the_user_and_one_tool_or_from_somebody() -> None:
    def found(*sources: str) -> RuleCandidate:
        sessions = [_pays(number, sources[number % len(sources)], "pay", "refund") for number in range(30)]
        return by_id(mine_provenance(facts_of(sessions)))["origin-any-account"]

    assert found("user").words == "account of pay or refund was said by the user"
    assert found("user", "find").words == "account of pay or refund was said by the user or find"
    assert found("user", "find").params["allow"] == {"user": True, "tools": ["~find"]}
    anybody = found("user", "find", "search")
    assert anybody.words == "account of any tool was said by somebody"
    assert anybody.params == {"tool": ["*"], "path": "account", "allow": {"user": True, "tools": ["*"]}}


def test_of_a_tool_that_is_hardly_known_no_source_is_claimed() -> None:
    sessions = [_pays(number, "user", "pay", *(("close",) * (number < 2))) for number in range(30)]
    found = by_id(mine_provenance(facts_of(sessions)))
    assert set(found) == {"origin-pay-account"}
    assert found["origin-pay-account"].params["tool"] == ["~pay"]


def test_what_never_follows_is_more_surprising_the_more_often_it_could() -> None:
    few = by_id(mine_sequences(facts_of(calls(f"s{number}", "ask", "refund", "bye") for number in range(10))))
    many = by_id(mine_sequences(facts_of(calls(f"s{number}", "ask", "refund", "bye") for number in range(100))))
    assert (few["never-ask-after-refund"].surprise or 0) < (many["never-ask-after-refund"].surprise or 0)
    assert many["never-anything-after-bye"].covers
    assert "never-bye-after-ask" not in many


def test_a_limit_has_room_and_a_lone_extreme_is_none() -> None:
    assert edge([1, 1, 1, 1]) == 2
    assert edge([1, 1, 1, 1], room=0) == 1
    assert edge([1, 2, 3, 9]) == 16  # as far beyond 9 as that is beyond 2
    assert edge([1, 2]) is None
    assert edge([0.5, 0.25, 0.125], whole=False) == 0.875
    numbers = [("refund", {"amount": amount % 50}) for amount in range(60)]
    found = by_id(mine_arguments(facts_of(calls(f"s{place}", number) for place, number in enumerate(numbers))))
    assert found["values-refund-amount"].words == "amount of refund is from 0 to 51"


def test_words_are_a_list_only_where_none_of_them_is_new() -> None:
    colours = ["red", "green", "blue"]
    known = [calls(f"s{number}", ("paint", {"colour": colours[number % 3]})) for number in range(30)]
    found = by_id(mine_arguments(facts_of(known)))
    assert found["values-paint-colour"].words == "colour of paint is one of blue, green, red"
    assert by_id(mine_arguments(facts_of([*known, calls("new", ("paint", {"colour": "mauve"}))]))) == {}


def test_calls_for_one_record_are_counted_by_record() -> None:
    sessions = [
        calls(f"s{number}", *(("cancel", {"order": f"{number}-{place}"}) for place in range(number % 4 + 1)))
        for number in range(40)
    ]
    found = by_id(mine_counts(facts_of(sessions)))
    assert found["most-cancel"].params["n"] == 4
    assert found["most-cancel-for-order"].params["n"] == 1
    assert found["most-cancel-for-order"].extra == {"key": ["session", "args.order"]}


def test_each_agent_has_its_tools() -> None:
    sessions = [
        [*calls(f"s{number}", "read", agent="reader@2"), *calls(f"s{number}", "read", "write", agent="writer")]
        for number in range(25)
    ]
    found = by_id(mine_callers(facts_of(sessions)))
    assert found["caller-reader"].params == {"tool": ["~read"]}
    assert found["caller-writer"].params == {"tool": ["~read", "~write"]}
    assert found["caller-reader"].extra["when"]["value"] == "^reader(@|$)"


@pytest.mark.parametrize(("times", "is_list"), [(2, False), (3, True)])
def test_a_tool_that_is_called_rarely_says_that_there_are_others(times: int, is_list: bool) -> None:
    sessions = [calls(f"s{number}", "read", *(("write",) * (number < times))) for number in range(30)]
    assert ("caller-any" in by_id(mine_callers(facts_of(sessions)))) is is_list


def test_bands_need_figures() -> None:
    usage = {"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.5}
    with_figures = [
        [Turn(session_id=f"s{number}", response={"usage": usage}), *calls(f"s{number}", "a", "b", "c", every=25.0)]
        for number in range(25)
    ]
    found = by_id(mine_bands(facts_of(with_figures)))
    assert {name: candidate.words for name, candidate in found.items()} == {
        "band-turns": "a session has at most 2 turns",
        "band-tokens": "a session has at most 111 tokens",
        "band-dollars": "a session has at most 0.5 dollars",
        "band-calls-in-a-minute": "a session has at most 4 calls in a minute",
    }
    assert by_id(mine_bands(facts_of(calls(f"s{number}", "a") for number in range(25)))) == {}


def test_sessions_about_the_same_are_one_task_and_stay_in_one_fold() -> None:
    sessions = [calls(f"s{number}", ("get", {"id": f"order-{number // 3}"})) for number in range(60)]
    facts = facts_of(sessions)
    assert len({session.task for session in facts.sessions}) == 20
    assert sum(session.weight for session in facts.sessions) == pytest.approx(20)
    folds = fold_of(facts.sessions)
    assert all(len({folds[f"s{3 * task + place}"] for place in range(3)}) == 1 for task in range(20))
    assert len(set(folds.values())) == FOLDS


@pytest.mark.parametrize(
    ("opening", "tasks"), [("Please pay the invoice {} that came with the parcel of May.", 10), ("Hi number {}!", 60)]
)
def test_sessions_that_begin_with_the_same_words_are_one_task(opening: str, tasks: int) -> None:
    sessions: list[list[Event]] = []
    for number in range(60):
        desk = Desk(f"s{number}")
        desk.user(opening.format(number // 6))
        desk.user("And quickly, please: the same words in all of them say nothing.")
        desk.call("pay", {"note": "thanks"})
        sessions.append(desk.events)
    assert len({session.task for session in facts_of(sessions).sessions}) == tasks


def test_a_form_that_many_sessions_begin_with_is_no_task() -> None:
    def tasks(forms: int) -> int:
        """Sessions about an order each, which begin with one of a few forms."""
        sessions: list[list[Event]] = []
        for number in range(60):
            desk = Desk(f"s{number}")
            desk.user(f"Please work on the next entry of the list of shop {number % forms}.")
            desk.call("get", {"order": f"order-{number}"})
            sessions.append(desk.events)
        return len({session.task for session in facts_of(sessions).sessions})

    assert tasks(1) == tasks(3) == tasks(12) == 60


def test_two_tools_with_the_same_words_in_one_session_keep_their_own_names() -> None:
    tools = ("mcp__slack__post_message", "mcp__github__post_message")
    found = by_id(mine_orders(facts_of(calls(f"s{number}", *tools) for number in range(10))))
    (order,) = found.values()
    assert order.params == {"first": tools[0], "second": tools[1]}


def test_a_bound_on_a_share_is_not_passed_more_often_than_promised() -> None:
    assert upper_share(0, 59, 0.05) == pytest.approx(1 - 0.05 ** (1 / 59), abs=1e-6)
    dice, missed = Random(3), 0
    for _ in range(400):
        hits = sum(dice.random() < 0.04 for _ in range(80))
        missed += upper_share(hits, 80, 0.05) < 0.04
    assert missed <= 400 * 0.05 + 3 * (400 * 0.05 * 0.95) ** 0.5


def test_of_rules_that_are_all_accidents_hardly_one_passes() -> None:
    dice, passed = Random(5), 0
    for _ in range(50):
        kept = [sum(dice.random() < 0.5 for _ in range(30)) for _ in range(40)]
        surprises = [surprise(one, 30, 0.5) for one in kept]
        least = no_accidents(surprises, len(surprises), 0.1)
        passed += any(found >= least for found in surprises)
    assert passed <= 50 * 0.1 + 3 * (50 * 0.1 * 0.9) ** 0.5
    assert no_accidents([30.0, 0.1], 1000, 0.1) == 30.0
