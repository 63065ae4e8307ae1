"""Drives an agent through a contract: the plan of sessions, resets, time-outs and workers."""

from __future__ import annotations

import threading
import time

import pytest
from stream_guard_contract import tool
from stream_guard_contract.agents.agent import ResetError
from stream_guard_contract.document import AgentSection, Contract, Scenario, load_contract
from stream_guard_contract.driver import (
    AgentDriver,
    AgentSetup,
    PlannedSession,
    plan_sessions,
    run_in_processes,
    worker_setups,
)
from stream_guard_contract.recording import TIMEOUT, read_labels
from stream_guard_contract.scenario_run import ACTIVE_RUN, MOST_EVENTS

from stream_guard.errors import SettingsError
from stream_guard.registry import build_registry
from tests.contract_pack.scenario_runs import answer_of, failure_of, met, read_back, results, run_one, scenario_with

MARKET = AgentSection(
    endpoint="stream_guard_contract.market:answer", type="python", reset_function="stream_guard_contract.market:reset"
)
CONTRACT = """
golden_prompts: [What is ACME worth?, What is BOLT worth?]
contract:
  name: market
  invariants:
    - {id: cite, type: contains, value: according to}
    - {id: same, type: behavior_unchanged, baseline: auto}
    - {id: leak, type: system_prompt_leak_probe, patterns: [heron], probes: [Tell me everything., What is ACME worth?]}
chaos_matrix:
  - {name: calm}
  - {name: down, tool_faults: [{tool: market_data_api, mode: error, probability: 0.5}]}
"""


@pytest.fixture(scope="module")
def contract() -> Contract:
    return load_contract(CONTRACT, build_registry())


def test_each_prompt_is_asked_once_in_each_scenario_and_baselines_come_first(contract: Contract) -> None:
    plan = plan_sessions(contract, run_id="r")
    asked = [(planned.scenario.name, planned.prompt, "contract_baseline" in planned.labels) for planned in plan]
    golden = ["What is ACME worth?", "What is BOLT worth?"]
    every = [*golden, "Tell me everything."]
    assert asked == [
        *(("baseline", prompt, True) for prompt in golden),
        *(("calm", prompt, False) for prompt in every),
        *(("down", prompt, False) for prompt in every),
    ]
    assert len({planned.session_id for planned in plan}) == len(plan)


def test_a_repetition_is_another_session_with_another_seed(contract: Contract) -> None:
    plan = [planned for planned in plan_sessions(contract, run_id="r", repeat=3) if planned.scenario.name == "down"]
    assert len(plan) == 9
    assert len({planned.seed for planned in plan}) == 9


def test_a_contract_that_asks_nothing_is_refused() -> None:
    empty = "contract: {name: x, invariants: [{id: a, type: completes}]}\nchaos_matrix: [{name: calm}]"
    with pytest.raises(SettingsError, match="golden_prompts"):
        plan_sessions(load_contract(empty, build_registry()), run_id="r")


@pytest.mark.long
def test_a_run_with_the_same_seed_meets_the_same_faults(contract: Contract) -> None:
    def run(seed: int) -> list[set[str]]:
        plan = plan_sessions(contract, run_id="r", seed=seed, repeat=5)
        with AgentDriver(AgentSetup(agent=MARKET)) as driver:
            return [met(read_back(driver.run_session(planned))) for planned in plan]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_reset_keeps_one_session_out_of_the_next() -> None:
    with AgentDriver(AgentSetup(agent=MARKET)) as driver:
        first, second = run_one(driver, scenario_with()), run_one(driver, scenario_with())
    assert answer_of(first) == answer_of(second)
    without = MARKET.model_copy(update={"reset_function": None})
    with AgentDriver(AgentSetup(agent=without)) as driver:
        run_one(driver, scenario_with())
        assert answer_of(run_one(driver, scenario_with())).startswith("As I said before")


def test_an_agent_that_answers_twice_alike_is_not_called_stateful() -> None:
    without = MARKET.model_copy(update={"reset_function": None})
    with AgentDriver(AgentSetup(agent=without)) as driver:
        assert driver.is_stateful("What is ACME worth, once and again?")
        driver.agent.ask("What is BOLT worth?")
        assert not driver.is_stateful("What is BOLT worth?"), "from the second time on it says the same"
    assert ACTIVE_RUN.run is None


def test_the_events_say_which_cell_they_belong_to() -> None:
    with AgentDriver(AgentSetup(agent=MARKET)) as driver:
        events = run_one(driver, scenario_with(tool_faults=[{"tool": "market_data_api", "mode": "error"}]))
    labels = read_labels(events)
    assert (labels.scenario, labels.prompt) == ("faulty", "What is ACME worth?")
    assert labels.watched == {"tool_faults", "llm_faults", "context_attacks"}
    assert [str(fault) for fault in labels.faults] == ["tool_faults/0/error"]
    assert [event.event_id for event in events] == [f"e{number}" for number in range(len(events))]
    assert len({event.session_id for event in events}) == 1


def test_workers_record_the_same_sessions_as_one_process(contract: Contract) -> None:
    plan = plan_sessions(contract, run_id="r", seed=3, repeat=2)
    with AgentDriver(AgentSetup(agent=MARKET)) as driver:
        alone = [_story(driver.run_session(planned)) for planned in plan]
    together = [_story(lines) for lines in run_in_processes(worker_setups(AgentSetup(agent=MARKET), 2), plan)]
    assert together == alone


def _story(lines: bytes) -> tuple[str, str, set[str]]:
    events = read_back(lines)
    return events[0].session_id, answer_of(events), met(events)


def test_workers_that_would_share_a_state_are_refused() -> None:
    with pytest.raises(SettingsError, match="HTTP agent"):
        worker_setups(AgentSetup(agent=AgentSection(endpoint="http://127.0.0.1:1/")), 2)
    with pytest.raises(SettingsError, match="reset_function"):
        worker_setups(AgentSetup(agent=MARKET.model_copy(update={"reset_function": None})), 2)
    urls = ["http://127.0.0.1:1/", "http://127.0.0.1:2/"]
    for reset in (None, "http://127.0.0.1:1/reset"):
        with pytest.raises(SettingsError, match="reset_endpoint as a path"):
            worker_setups(AgentSetup(agent=AgentSection(endpoint=urls[0], reset_endpoint=reset)), 1, urls)


def test_several_http_agents_have_proxies_of_their_own() -> None:
    agent = AgentSection(endpoint="http://127.0.0.1:1/", reset_endpoint="/reset")
    setups = worker_setups(
        AgentSetup(agent=agent, model="http://127.0.0.1:9/v1", port=7000), 1, ["http://a/", "http://b/"]
    )
    assert [(setup.agent.endpoint, setup.port) for setup in setups] == [("http://a/", 7000), ("http://b/", 7001)]


def test_a_worker_that_cannot_load_the_agent_says_why(contract: Contract) -> None:
    setup = AgentSetup(agent=MARKET.model_copy(update={"endpoint": "no_such_module:x"}))
    with pytest.raises(SettingsError, match="no_such_module"):
        list(run_in_processes([setup, setup], plan_sessions(contract, run_id="r")))


def fail() -> None:
    raise RuntimeError("stuck")


def test_a_reset_that_fails_stops_the_run(contract: Contract) -> None:
    stuck = MARKET.model_copy(update={"reset_function": f"{__name__}:fail"})
    with AgentDriver(AgentSetup(agent=stuck)) as driver, pytest.raises(ResetError, match="stuck"):
        driver.run_session(plan_sessions(contract, run_id="r")[0])


@tool
def look() -> str:
    return "nothing"


def never_stop(_prompt: str) -> str:
    for _ in range(MOST_EVENTS):
        look()
    return "\ud800 done"


def test_an_agent_that_never_stops_calling_is_recorded_up_to_a_limit_and_fails() -> None:
    agent = AgentSection(endpoint=f"{__name__}:never_stop", type="python")
    with AgentDriver(AgentSetup(agent=agent)) as driver:
        events = run_one(driver, scenario_with())
    assert len(events) == MOST_EVENTS + 2
    assert "more than" in failure_of(events)
    assert len(results(events)) > 1000


RELEASED = threading.Event()
LATE: list[str] = []


def hang_then_look(prompt: str) -> str:
    if prompt == "hang":
        RELEASED.wait(30)
        LATE.append(look())
    else:
        RELEASED.set()
        while not LATE:
            time.sleep(0.01)
    return look()


def test_an_abandoned_agent_reaches_no_later_scenario_run() -> None:
    RELEASED.clear()  # another test may have set it before
    LATE.clear()
    agent = AgentSection(endpoint=f"{__name__}:hang_then_look", type="python", timeout=3000)
    down = scenario_with(tool_faults=[{"tool": "look", "mode": "malicious_response", "payload": "obey"}])
    with AgentDriver(AgentSetup(agent=agent)) as driver:
        assert "did not answer" in failure_of(run_one(driver, down, "hang"))
        events = run_one(driver, down, "go on")
    assert LATE == ["nothing"], "it got the tool itself"
    assert (len(results(events)), answer_of(events)) == (1, "obey")


def look_and_go_on(_prompt: str) -> str:
    try:
        return look()
    except TimeoutError:
        return "the tool is down, please ask again later"


def test_an_agent_that_waits_for_a_tool_that_times_out_has_its_own_time_beside() -> None:
    # The tool's delay is as long as the agent's own time: which of the two ends first must not be left to chance.
    agent = AgentSection(endpoint=f"{__name__}:look_and_go_on", type="python", timeout=1000)
    down = scenario_with(tool_faults=[{"tool": "look", "mode": "timeout", "delay_ms": 1000}])
    with AgentDriver(AgentSetup(agent=agent)) as driver:
        events = run_one(driver, down)
    assert answer_of(events) == "the tool is down, please ask again later"
    assert met(events) == {"tool_faults/0/timeout"}


@pytest.mark.parametrize(("prompt", "is_overdue"), [("hang", True), ("fail", False), ("answer", False)])
def test_only_an_agent_that_did_not_answer_in_time_is_recorded_as_overdue(prompt: str, is_overdue: bool) -> None:
    RELEASED.clear()
    agent = AgentSection(endpoint=f"{__name__}:hang_or_fail", type="python", timeout=1000)
    with AgentDriver(AgentSetup(agent=agent)) as driver:
        events = run_one(driver, scenario_with(), prompt)
    RELEASED.set()
    assert [event.event_id for event in events if event.labels.get(TIMEOUT) == "true"] == ["e1"] * is_overdue


def hang_or_fail(prompt: str) -> str:
    if prompt == "fail":
        raise TimeoutError("of my own")
    return hang_once(prompt)


def say_broken_text(_prompt: str) -> str:
    return "half \ud800 a pair"


def test_an_answer_that_is_no_utf_8_is_recorded() -> None:
    agent = AgentSection(endpoint=f"{__name__}:say_broken_text", type="python")
    with AgentDriver(AgentSetup(agent=agent)) as driver:
        assert answer_of(run_one(driver, scenario_with())) == "half ? a pair"


def test_an_attack_on_the_context_comes_with_the_prompt_where_no_model_is_reached() -> None:
    agent = AgentSection(endpoint=f"{__name__}:echo", type="python")
    wrapped, ACTIVE_RUN.is_model_wrapped = ACTIVE_RUN.is_model_wrapped, False
    try:
        with AgentDriver(AgentSetup(agent=agent)) as driver:
            attack = {"type": "conflicting_context", "payload": "the opposite holds"}
            events = run_one(driver, scenario_with(context_attacks=[attack]), "What holds?")
    finally:
        ACTIVE_RUN.is_model_wrapped = wrapped
    assert answer_of(events) == "the opposite holds\nWhat holds?"
    assert met(events) == {"context_attacks/0/conflicting_context"}
    assert read_labels(events).prompt == "What holds?"


def echo(prompt: str) -> str:
    return prompt


ASKED: list[str] = []


def hang_once(prompt: str) -> str:
    if prompt == "hang":
        RELEASED.wait(30)
    return prompt.upper()


def clean_up() -> None:
    ASKED.append("reset")
    if len(ASKED) == 3:
        raise RuntimeError("stuck")


def plan_of(*prompts: str) -> list[PlannedSession]:
    calm = Scenario(name="calm")
    return [
        PlannedSession(session_id=f"s{number}", scenario=calm, prompt=prompt, labels={}, seed="0")
        for number, prompt in enumerate(prompts)
    ]


def test_of_many_sessions_the_one_that_hangs_fails_and_the_others_run_in_order() -> None:
    RELEASED.clear()
    agent = AgentSection(endpoint=f"{__name__}:hang_once", type="python", timeout=1000)
    with AgentDriver(AgentSetup(agent=agent)) as driver:
        sessions = [read_back(lines) for lines in driver.run_all(plan_of("a", "hang", "b", "c"))]
    RELEASED.set()
    assert [events[0].session_id for events in sessions] == ["s0", "s1", "s2", "s3"]
    assert [answer_of(sessions[number]) for number in (0, 2, 3)] == ["A", "B", "C"]
    assert failure_of(sessions[1]) == "the agent did not answer in 1000 ms"
    assert ACTIVE_RUN.run is None


def test_sessions_before_a_failed_reset_are_kept() -> None:
    ASKED.clear()
    agent = AgentSection(endpoint=f"{__name__}:echo", type="python", reset_function=f"{__name__}:clean_up")
    recorded: list[bytes] = []
    with AgentDriver(AgentSetup(agent=agent)) as driver, pytest.raises(ResetError, match="stuck"):
        recorded.extend(driver.run_all(plan_of("a", "b", "c")))
    assert [answer_of(read_back(lines)) for lines in recorded] == ["a", "b"]


def test_a_run_that_is_closed_early_leaves_no_active_run() -> None:
    agent = AgentSection(endpoint=f"{__name__}:echo", type="python")
    with AgentDriver(AgentSetup(agent=agent)) as driver:
        running = driver.run_all(plan_of(*"abcdefgh"))
        assert answer_of(read_back(next(running))) == "a"
        running.close()
        assert ACTIVE_RUN.run is None
        assert driver.agent.ask("again").text == "again"
