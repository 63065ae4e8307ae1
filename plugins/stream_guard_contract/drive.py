"""Driving: every prompt under every scenario becomes one recorded session, and each starts from a clean agent."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from typing import TYPE_CHECKING, Final, Self

import msgspec

from stream_guard.errors import SettingsError, StreamGuardError
from stream_guard_contract.agent import Agent
from stream_guard_contract.document import Contract
from stream_guard_contract.forms import Agent as AgentForm
from stream_guard_contract.forms import Scenario
from stream_guard_contract.labels import BASELINE, PROMPT, REPETITION, SCENARIO, TRUE
from stream_guard_contract.performer import TimedOutError
from stream_guard_contract.python_agent import PythonAgent
from stream_guard_contract.recording import encode_events
from stream_guard_contract.scene import Scene
from stream_guard_contract.stage import STAGE, Stage
from stream_guard_contract.storm import Storm

if TYPE_CHECKING:
    from stream_guard_contract.background import Background

TOOLS_VARIABLE: Final = "TOOLS_BASE_URL"
MODEL_VARIABLE: Final = "OPENAI_BASE_URL"
CALM: Final = Scenario(name="baseline")


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One session to be: a prompt, the weather it is asked in, and what the recording says about it."""

    session_id: str
    scenario: Scenario
    prompt: str
    labels: dict[str, str]
    seed: str


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent is reached, and what stands behind the proxies it calls."""

    agent: AgentForm
    tools: Mapping[str, str] = {}
    model: str = ""
    port: int = 0

    @property
    def is_http(self) -> bool:
        """Whether the agent is another process."""
        return self.agent.type == "http"


def plan(contract: Contract, *, run_id: str, seed: int = 0, repeat: int = 1) -> list[Unit]:
    """Return the sessions that a contract asks for: baselines first, then scenario by scenario.

    Invariants that ask the same prompt share its session: they judge the same words, and the agent is asked once.
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
    weathers = [(CALM, {BASELINE: TRUE}, [prompt for prompt in prompts if prompt in compared])]
    weathers += [(scenario, {}, prompts) for scenario in contract.scenarios]
    return [
        Unit(
            session_id=f"{run_id}-{number}-{prompts.index(prompt)}-{repetition}",
            scenario=scenario,
            prompt=prompt,
            labels={SCENARIO: scenario.name, PROMPT: prompt, REPETITION: str(repetition), **extra},
            seed=f"{seed}/{scenario.name}/{repetition}/{prompt}",
        )
        for number, (scenario, extra, asked) in enumerate(weathers)
        for prompt in asked
        for repetition in range(repeat)
    ]


class Player:
    """An agent and the proxies around it, ready to be driven; one scene at a time."""

    def __init__(self, setup: Setup, stage: Stage = STAGE) -> None:
        self._stage = stage
        self._background: Background | None = None
        self._before: dict[str, str | None] = {}  # variables of the environment as they were
        self.url = ""  # where the proxies are, "" without any
        if setup.is_http or setup.tools or setup.model:
            try:
                from stream_guard_contract.background import Background  # noqa: PLC0415  # an extra, and slow to load
            except ImportError as error:
                raise SettingsError(
                    f"HTTP needs {error.name}; install the extra: pip install 'stream-guard[contract]'"
                ) from None
            self._background = Background()
        try:
            if self._background is not None and (setup.tools or setup.model):
                self.url = self._background.open_proxies(stage, setup.tools, setup.model, setup.port)
                stage.is_model_proxied = bool(setup.model)
            self.agent = self._open_agent(setup)
        except BaseException:
            self._close_background()
            raise

    def play(self, unit: Unit) -> bytes:
        """Drive one session, and return it as lines; ResetError when the agent cannot be made clean before."""
        if self.agent.can_reset:
            self.agent.reset()
        storm = Storm(unit.scenario, unit.seed, has_model=self._stage.has_model)
        scene = Scene(unit.session_id, unit.labels, storm)
        prompt = scene.begin(unit.prompt)
        self._stage.scene = scene
        try:
            answer = self.agent.ask(prompt)
        finally:
            if self._stage.scene is scene:  # else it took too long, and another one is played by now
                self._stage.scene = None
        return encode_events(scene.end(answer.text, answer.latency_ms, answer.error))

    def play_all(self, units: Iterable[Unit]) -> Generator[bytes, None, None]:
        """Drive sessions one after the other, and yield each as lines; ResetError when one cannot start clean."""
        agent = self.agent
        if not isinstance(agent, PythonAgent):
            yield from map(self.play, units)
            return
        waiting, done = iter(units), deque[bytes]()

        def play_on() -> None:
            for unit in waiting:
                done.append(self.play(unit))

        is_over = False
        while not is_over:
            try:
                # In the agent's thread: to pass every call there and back takes longer than many a call does.
                with closing(agent.work(play_on)) as progress:
                    for _ in progress:
                        while done:
                            yield done.popleft()
                is_over = True
            except TimedOutError:
                scene = self._stage.scene
                overdue = None if scene is None else _end_overdue(scene, agent)
                yield from done
                done.clear()
                if overdue is None:
                    raise agent.not_reset() from None
                yield overdue
            finally:
                self._stage.scene = None

    def is_stateful(self, prompt: str) -> bool:
        """Whether the agent answers the same prompt in two ways, in calm weather; an error says nothing."""
        first, second = self.agent.ask(prompt), self.agent.ask(prompt)
        return not (first.error or second.error) and first.text.strip() != second.text.strip()

    def close(self) -> None:
        """Release agent and proxies."""
        self.agent.close()
        self._close_background()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_agent(self, setup: Setup) -> Agent:
        if self._background is not None and setup.is_http:
            from stream_guard_contract.http_agent import HttpAgent  # noqa: PLC0415  # an extra, and slow to load

            return HttpAgent(setup.agent, self._background)
        # Before the agent is imported: modules read their settings then.
        if setup.tools:
            self._tell(TOOLS_VARIABLE, f"{self.url}/tools")
        if setup.model:
            self._tell(MODEL_VARIABLE, f"{self.url}/v1")
        return PythonAgent(setup.agent)

    def _tell(self, name: str, value: str) -> None:
        self._before[name] = os.environ.get(name)
        os.environ[name] = value

    def _close_background(self) -> None:
        self._stage.is_model_proxied = False
        for name, value in self._before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        if self._background is not None:
            self._background.close()


def _end_overdue(scene: Scene, agent: PythonAgent) -> bytes:
    """Return the session of an agent that did not come back."""
    answer = agent.overdue()
    return encode_events(scene.end(answer.text, answer.latency_ms, answer.error))


def crew(setup: Setup, workers: int, endpoints: Sequence[str] = ()) -> list[Setup]:
    """Return one setup for each worker; SettingsError where two of them would share a state.

    A Python agent is imported anew by every worker. HTTP agents are processes already, so there must be several.
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
    own = setup if workers == 1 else msgspec.structs.replace(setup, port=0)  # each has proxies of its own
    return [own] * workers


def _with_endpoint(setup: Setup, endpoint: str, number: int) -> Setup:
    reset = setup.agent.reset_endpoint
    if not setup.is_http or not reset or "://" in reset:
        raise SettingsError(
            "several --agent must be HTTP agents that are reset each by itself: give agent.reset_endpoint as a path, "
            "such as /reset, which belongs to each agent's own host"
        )
    agent = setup.agent.model_copy(update={"endpoint": endpoint})
    return msgspec.structs.replace(setup, agent=agent, port=setup.port + number if setup.port else 0)


def play_in_processes(setups: Sequence[Setup], units: Sequence[Unit]) -> Iterator[bytes]:
    """Yield the sessions in order, driven by processes that share nothing: agent, proxies and resets are their own."""
    context = get_context("spawn")
    waiting = context.SimpleQueue()
    for setup in setups:
        waiting.put(setup)
    with ProcessPoolExecutor(len(setups), context, _start, (waiting, list(sys.path))) as pool:
        yield from pool.map(_play, units)


_PLAYERS: Final[list[Player | StreamGuardError]] = []  # of a worker process: one, or why there is none


def _start(waiting: SimpleQueue[Setup], path: list[str]) -> None:
    sys.path[:] = path
    try:
        player = Player(waiting.get())
        player.agent.check()
        _PLAYERS.append(player)
    except StreamGuardError as error:  # told by the first scene: a pool only says that its worker died
        _PLAYERS.append(error)


def _play(unit: Unit) -> bytes:
    player = _PLAYERS[0]
    if isinstance(player, StreamGuardError):
        raise player
    return player.play(unit)
