"""Drives an agent through a contract: one recorded session for each prompt under each scenario, after a reset."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec

from stream_guard import SettingsError, StreamGuardError, install_line
from stream_guard_contract.agents.agent import DrivenAgent
from stream_guard_contract.agents.python_agent import PythonAgent, TimedOutError
from stream_guard_contract.document import AgentSection, Contract, Scenario
from stream_guard_contract.faults import FaultPlan, longest_delay
from stream_guard_contract.recording import BASELINE, PROMPT, REPETITION, SCENARIO, TRUE, encode_events
from stream_guard_contract.scenario_run import ACTIVE_RUN, ActiveRun, ScenarioRun

if TYPE_CHECKING:
    from stream_guard_contract.proxies import HttpThread

TOOLS_VARIABLE: Final = "TOOLS_BASE_URL"
MODEL_VARIABLE: Final = "OPENAI_BASE_URL"
BASELINE_SCENARIO: Final = Scenario(name="baseline")


class PlannedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that the run will record: a prompt, its scenario, and the labels of the recording."""

    session_id: str
    scenario: Scenario
    prompt: str
    labels: dict[str, str]
    seed: str


class AgentSetup(msgspec.Struct, frozen=True, kw_only=True):
    """How one worker reaches its agent, and the addresses behind its proxies."""

    agent: AgentSection
    tools: Mapping[str, str] = {}
    model: str = ""
    port: int = 0

    @property
    def is_http(self) -> bool:
        """Whether the agent is reached over HTTP."""
        return self.agent.type == "http"


def plan_sessions(contract: Contract, *, run_id: str, seed: int = 0, repeat: int = 1) -> list[PlannedSession]:
    """Return the sessions of a contract: baselines first, then scenario by scenario.

    Invariants with the same prompt share one session, so the agent is asked once for all of them.
    """
    prompts = list(dict.fromkeys(prompt for item in contract.invariants for prompt in contract.prompts(item)))
    if not prompts:
        raise SettingsError(f"{contract.file or 'the contract'} asks nothing: give it golden_prompts, or probes")
    compared = {
        prompt
        for item in contract.invariants
        if item.type == "behavior_unchanged" and item.baseline == "auto"
        for prompt in contract.prompts(item)
    }
    groups = [(BASELINE_SCENARIO, {BASELINE: TRUE}, [prompt for prompt in prompts if prompt in compared])]
    groups += [(scenario, {}, prompts) for scenario in contract.scenarios]
    return [
        PlannedSession(
            session_id=f"{run_id}-{number}-{prompts.index(prompt)}-{repetition}",
            scenario=scenario,
            prompt=prompt,
            labels={SCENARIO: scenario.name, PROMPT: prompt, REPETITION: str(repetition), **extra},
            seed=f"{seed}/{scenario.name}/{repetition}/{prompt}",
        )
        for number, (scenario, extra, asked) in enumerate(groups)
        for prompt in asked
        for repetition in range(repeat)
    ]


class AgentDriver:
    """An agent and its proxies; runs one session at a time."""

    def __init__(self, setup: AgentSetup, active: ActiveRun = ACTIVE_RUN) -> None:
        self._active = active
        self._http_thread: HttpThread | None = None
        self._saved_environment: dict[str, str | None] = {}
        self._folder = ""  # in front of the path while there is a Python agent
        self.url = ""  # of the proxies; empty without any
        if setup.is_http or setup.tools or setup.model:
            try:
                from stream_guard_contract.proxies import HttpThread  # noqa: PLC0415  # an extra, and slow to load
            except ImportError as error:
                raise SettingsError(f"HTTP needs {error.name}; install the extra: {install_line('contract')}") from None
            self._http_thread = HttpThread()
        try:
            if self._http_thread is not None and (setup.tools or setup.model):
                self.url = self._http_thread.open_proxies(active, setup.tools, setup.model, setup.port)
                active.is_model_proxied = bool(setup.model)
            self.agent = self._open_agent(setup)
        except BaseException:
            self._put_back()
            raise

    def run_session(self, planned: PlannedSession) -> bytes:
        """Run one session and return it as JSON lines; ResetError when the agent cannot be reset first."""
        if self.agent.can_reset:
            self.agent.reset()
        fault_plan = FaultPlan(planned.scenario, planned.seed, has_model=self._active.has_model)
        run = ScenarioRun(planned.session_id, planned.labels, fault_plan)
        prompt = run.begin(planned.prompt)
        self._active.run = run
        try:
            answer = self.agent.ask(prompt, longest_delay(planned.scenario))
        finally:
            if self._active.run is run:  # otherwise this session timed out, and the next one is running already
                self._active.run = None
        return encode_events(run.end(answer.text, answer.latency_ms, answer.error, is_overdue=answer.is_overdue))

    def run_all(self, plan: Iterable[PlannedSession]) -> Generator[bytes, None, None]:
        """Run the sessions in order and yield each as JSON lines; ResetError when a reset fails."""
        agent = self.agent
        if not isinstance(agent, PythonAgent):
            yield from map(self.run_session, plan)
            return
        remaining, done = iter(plan), deque[bytes]()

        def run_remaining() -> None:
            for planned in remaining:
                done.append(self.run_session(planned))

        is_over = False
        while not is_over:
            try:
                # In the agent's thread: handing each call over and back would take longer than many calls do.
                with agent.work(run_remaining) as work:
                    while not is_over:
                        is_over = work.is_over()
                        while done:
                            yield done.popleft()
                    work.check()
            except TimedOutError:
                run = self._active.run
                overdue = None if run is None else _end_overdue(run, agent)
                yield from done
                done.clear()
                if overdue is None:
                    raise agent.not_reset() from None
                yield overdue
            finally:
                self._active.run = None

    def is_stateful(self, prompt: str) -> bool:
        """Whether a second answer to the same prompt differs, without faults; an error proves nothing."""
        first, second = self.agent.ask(prompt), self.agent.ask(prompt)
        return not (first.error or second.error) and first.text.strip() != second.text.strip()

    def close(self) -> None:
        """Close the agent and the proxies, and put back the environment and the path."""
        self.agent.close()
        self._put_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_agent(self, setup: AgentSetup) -> DrivenAgent:
        if self._http_thread is not None and setup.is_http:
            from stream_guard_contract.agents.http_agent import HttpAgent  # noqa: PLC0415  # an extra, and slow to load

            return HttpAgent(setup.agent, self._http_thread)
        # Set before the agent is imported: modules read their settings at import time.
        if setup.tools:
            self._set_variable(TOOLS_VARIABLE, f"{self.url}/tools")
        if setup.model:
            self._set_variable(MODEL_VARIABLE, f"{self.url}/v1")
        # module:callable is found from the current folder. In front only now: a worker takes over the path and would
        # import stream_guard from that folder too, where a checkout may lie; compiled modules beside plain ones crash.
        self._folder = str(Path.cwd())
        sys.path.insert(0, self._folder)
        return PythonAgent(setup.agent)

    def _set_variable(self, name: str, value: str) -> None:
        self._saved_environment[name] = os.environ.get(name)
        os.environ[name] = value

    def _put_back(self) -> None:
        self._active.is_model_proxied = False
        if self._folder and self._folder in sys.path:
            sys.path.remove(self._folder)
        for name, value in self._saved_environment.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        if self._http_thread is not None:
            self._http_thread.close()


def _end_overdue(run: ScenarioRun, agent: PythonAgent) -> bytes:
    """Return the session of an agent that timed out."""
    answer = agent.overdue()
    return encode_events(run.end(answer.text, answer.latency_ms, answer.error, is_overdue=True))


def worker_setups(setup: AgentSetup, workers: int, endpoints: Sequence[str] = ()) -> list[AgentSetup]:
    """Return one setup for each worker; SettingsError where two of them would share the state of one agent.

    Each worker imports a Python agent anew. An HTTP agent is one process, so each worker needs its own endpoint.
    """
    if len(endpoints) > 1:
        return [_with_endpoint(setup, endpoint, number) for number, endpoint in enumerate(endpoints)]
    if workers > 1 and setup.is_http:
        raise SettingsError(
            "an HTTP agent is one process, and a reset for one session hits the others; start several, and name each "
            "with --agent instead of --workers"
        )
    if workers > 1 and not setup.agent.reset_function:
        raise SettingsError("--workers needs agent.reset_function, so that every worker can start each session clean")
    own = (
        setup if workers == 1 else msgspec.structs.replace(setup, port=0)
    )  # each worker opens its own proxies on any port
    return [own] * workers


def _with_endpoint(setup: AgentSetup, endpoint: str, number: int) -> AgentSetup:
    reset = setup.agent.reset_endpoint
    if not setup.is_http or not reset or "://" in reset:
        raise SettingsError(
            "several --agent must be HTTP agents that are reset each by itself: give agent.reset_endpoint as a path, "
            "such as /reset, which belongs to each agent's own host"
        )
    agent = setup.agent.model_copy(update={"endpoint": endpoint})
    return msgspec.structs.replace(setup, agent=agent, port=setup.port + number if setup.port else 0)


def run_in_processes(setups: Sequence[AgentSetup], plan: Sequence[PlannedSession]) -> Iterator[bytes]:
    """Yield the sessions in order; worker processes run them, each with its own agent, proxies and resets."""
    context = get_context("spawn")
    queue = context.SimpleQueue()
    for setup in setups:
        queue.put(setup)
    with ProcessPoolExecutor(len(setups), context, _start_worker, (queue,)) as pool:
        yield from pool.map(_run_planned, plan)


_DRIVERS: Final[list[AgentDriver | StreamGuardError]] = []  # in a worker process: its driver, or why it has none


def _start_worker(queue: SimpleQueue[AgentSetup]) -> None:
    try:
        driver = AgentDriver(queue.get())
        driver.agent.check()
        _DRIVERS.append(driver)
    except StreamGuardError as error:  # raised by the first session: a pool would only say that its worker died
        _DRIVERS.append(error)


def _run_planned(planned: PlannedSession) -> bytes:
    driver = _DRIVERS[0]
    if isinstance(driver, StreamGuardError):
        raise driver
    return driver.run_session(planned)
