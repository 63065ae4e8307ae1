"""A Python agent: a callable, called in a thread of its own, which is abandoned when a call times out."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any, Final, Self, TypeAlias

from stream_guard import SettingsError
from stream_guard_contract.agents.agent import RESET_SECONDS, AgentAnswer, ResetError, overdue_answer
from stream_guard_contract.document import AgentSection
from stream_guard_contract.recording import as_text
from stream_guard_contract.scenario_run import ACTIVE_RUN

Work: TypeAlias = Callable[[], Any]
Outcome: TypeAlias = tuple[Any, BaseException | None]

_POLL: Final = 0.05  # seconds between two looks at the deadline while no call is running


class TimedOutError(Exception):
    """The call did not return in time. It is no TimeoutError, because an agent may raise that itself."""


class AbandonedCallError(BaseException):
    """Raised inside an abandoned thread when its call returns late; a BaseException, so no agent swallows it."""


class AgentThread:
    """A thread with one event loop for its whole life, so that what an async agent opened stays usable.

    It begins with the first work, which it then need not wait for.
    Work that makes many calls is handed over once. The thread that waits for it notices an overdue call. After a
    TimedOutError the call cannot be stopped: abandon the thread and use a new one.
    """

    def __init__(self) -> None:
        self._works: SimpleQueue[Work | None] = SimpleQueue()
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._lock = Lock()
        self._deadline: float | None = None  # of the running call
        self._is_abandoned = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_started = False
        self.thread = Thread(target=self._run, name="contract-agent", daemon=True)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return self.thread is current_thread()

    def start(self, work: Work) -> None:
        """Hand work over to the thread; the work makes its calls through ``call``."""
        self._works.put(work)
        if not self._is_started:
            self._is_started = True
            self.thread.start()

    def wait(self, seconds: float) -> Outcome | None:
        """Return the outcome of the work, or None after ``seconds``; TimedOutError where a call is overdue."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            with self._lock:
                deadline = self._deadline
                self._is_abandoned = self._is_abandoned or (deadline is not None and now >= deadline)
            if self._is_abandoned:
                raise TimedOutError
            next_look = min(until, now + _POLL if deadline is None else deadline)
            try:
                return self._outcomes.get(timeout=max(0.0, next_look - now))
            except Empty:
                if time.monotonic() >= until:
                    return None

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> Any:
        """Return the function's result, awaited where it is awaitable; only called inside the thread."""
        with self._lock:
            if self._is_abandoned:
                raise AbandonedCallError
            self._deadline = time.monotonic() + seconds
        try:
            result = function(*args)
            if result is not None and type(result) is not str and inspect.isawaitable(result):
                result = self._await(result)
        finally:
            with self._lock:
                self._deadline = None
                is_abandoned = self._is_abandoned
            if is_abandoned:
                raise AbandonedCallError
        return result

    def abandon(self) -> None:
        """Let the thread end after its running call; it makes no more calls."""
        with self._lock:
            self._is_abandoned = True
        self._works.put(None)

    def _await(self, result: Any) -> Any:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(_awaited(result))

    def _run(self) -> None:
        try:
            while (work := self._works.get()) is not None:
                try:
                    result = work()
                except BaseException as error:  # noqa: BLE001  # raised again in the thread that waits
                    self._outcomes.put((None, error))
                else:
                    self._outcomes.put((result, None))
        finally:
            if self._loop is not None:
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
                self._loop.close()


async def _awaited(result: Any) -> Any:
    return await result


# A Python agent: a callable, sync or async, called in a thread that is abandoned when a call times out.

_PROGRESS: Final = 0.05  # seconds between two looks at work that runs in the agent's thread


class PythonAgent:
    """An agent that is a callable or has ``invoke``; ``agent.timeout`` holds for each call, as over HTTP."""

    def __init__(self, section: AgentSection) -> None:
        self._seconds = section.timeout / 1000
        self._delay = 0.0  # that faults may cost the running call
        self._ask = _entry(load_object(section.endpoint, "agent.endpoint"), section)
        name = section.reset_function
        self._reset: Callable[[], Any] | None = load_object(name, "agent.reset_function") if name else None
        self.can_reset = self._reset is not None
        self._agent_thread = AgentThread()

    def check(self) -> None:
        """Do nothing: the constructor has loaded the agent already."""

    def ask(self, prompt: str, delay: float = 0.0) -> AgentAnswer:
        """Call the agent; an exception is an error answer, and a call that takes too long is abandoned."""
        self._delay = delay
        began = time.perf_counter()
        text, error = "", ""
        try:
            text = _as_answer(self._call(self._ask, (prompt,), self._seconds + delay))
        except TimedOutError:
            return self.overdue()
        except BaseException as failure:  # raised by the agent: even SystemExit ends only its own session
            if isinstance(failure, KeyboardInterrupt | AbandonedCallError):
                raise
            error = f"{type(failure).__name__}: {failure}"
        return AgentAnswer(text, (time.perf_counter() - began) * 1000, error)

    def overdue(self) -> AgentAnswer:
        """Return the error answer of an agent that took too long."""
        return overdue_answer(self._seconds + self._delay)

    def reset(self) -> None:
        """Call the reset function."""
        if self._reset is None:
            return
        try:
            self._call(self._reset, (), RESET_SECONDS)
        except TimedOutError:
            raise self.not_reset() from None
        except Exception as failure:  # noqa: BLE001  # after any error the agent's state is unknown
            raise ResetError(f"reset_function failed: {type(failure).__name__}: {failure}") from None

    def not_reset(self) -> ResetError:
        """Return the error of a reset that took too long."""
        return ResetError(f"reset_function did not return in {RESET_SECONDS:g} s")

    def close(self) -> None:
        """Let the thread end."""
        self._agent_thread.abandon()

    def work(self, work: Callable[[], Any]) -> AgentWork:
        """Return work that calls ``ask`` and ``reset``, to be run in the agent's own thread by a ``with`` statement."""
        return AgentWork(self, work)

    def start(self, work: Callable[[], Any]) -> AgentThread:
        """Let the agent's thread run work, and return the thread."""
        self._agent_thread.start(work)
        return self._agent_thread

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> Any:
        agent_thread = self._agent_thread
        if agent_thread.is_current:
            return agent_thread.call(function, args, seconds)
        results: list[Any] = []
        with self.work(lambda: results.append(agent_thread.call(function, args, seconds))) as work:
            while not work.is_over():
                pass
            work.check()
        return results[0]

    def abandon_thread(self) -> None:
        """Use another thread from now on."""
        # A thread cannot be stopped. It keeps its event loop, and its further calls belong to no scenario run.
        ACTIVE_RUN.abandoned_threads.add(self._agent_thread.thread)
        self._agent_thread.abandon()
        self._agent_thread = AgentThread()


class AgentWork:
    """Work in the thread of an agent, whose calls need no switch of threads then.

    When it is left before it is over, as after a TimedOutError, the thread is abandoned.
    """

    def __init__(self, agent: PythonAgent, work: Callable[[], Any]) -> None:
        self._agent = agent
        self._work = work
        self._agent_thread: AgentThread | None = None
        self._outcome: Outcome | None = None

    def __enter__(self) -> Self:
        self._agent_thread = self._agent.start(self._work)
        return self

    def __exit__(self, *_: object) -> None:
        if self._outcome is None:
            self._agent.abandon_thread()

    def is_over(self) -> bool:
        """Wait for a moment; return whether the work is over, or raise TimedOutError when a call takes too long."""
        if self._outcome is None and self._agent_thread is not None:
            self._outcome = self._agent_thread.wait(_PROGRESS)
        return self._outcome is not None

    def check(self) -> None:
        """Raise what the work raised."""
        if self._outcome is not None and self._outcome[1] is not None:
            raise self._outcome[1]


def load_object(name: str, what: str) -> Any:
    """Return the object that ``module:attribute`` names, or raise SettingsError."""
    module_name, separator, path = name.partition(":")
    if not separator or not module_name or not path:
        raise SettingsError(f"{what} is {name!r}; write module:callable, such as my_agent:answer")
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # noqa: BLE001  # importing a module may raise anything
        raise SettingsError(f"{what} {name!r} cannot be loaded: {type(error).__name__}: {error}") from None
    return found


def _entry(found: Any, section: AgentSection) -> Callable[[str], Any]:
    """Return the callable that takes a prompt."""
    thing = found() if inspect.isclass(found) else found
    if section.type == "langchain":
        chain: Any = getattr(thing, "invoke", None) or thing
        return lambda prompt: chain({"input": prompt})
    entry = getattr(thing, "invoke", None) or thing
    if not callable(entry):
        raise SettingsError(f"agent.endpoint {section.endpoint!r} is {type(thing).__name__}, which cannot be called")
    called: Callable[[str], Any] = entry
    return called


def _as_answer(result: Any) -> str:
    if isinstance(result, dict):
        result = next((result[key] for key in ("output", "text", "answer") if result.get(key) is not None), result)
    if result is None:
        return ""
    return result if isinstance(result, str) else as_text(result)
