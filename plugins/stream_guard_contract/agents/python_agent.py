"""A Python agent: a callable, sync or async, called in a thread that is abandoned when a call times out."""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Callable
from typing import Any, Final, Self

from stream_guard import SettingsError
from stream_guard_contract.agents.agent import RESET_SECONDS, AgentAnswer, ResetError, overdue_answer
from stream_guard_contract.agents.agent_thread import AbandonedCallError, AgentThread, Outcome, TimedOutError
from stream_guard_contract.document.sections import AgentSection
from stream_guard_contract.recording.session_writer import as_text
from stream_guard_contract.scenario.scenario_run import ACTIVE_RUN

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
