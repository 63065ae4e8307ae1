"""A Python agent: a callable, sync or async, run in a thread that can be left behind when it does not come back."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

from stream_guard.contract.agent import RESET_SECONDS, Answer, ResetError
from stream_guard.contract.forms import Agent as AgentForm
from stream_guard.contract.recording import as_text
from stream_guard.contract.stage import STAGE
from stream_guard.errors import SettingsError

Job: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
Outcome: TypeAlias = tuple[Any, BaseException | None]


class PythonAgent:
    """An agent that is a callable or has ``invoke``; its time is the agent's time-out, as over HTTP."""

    def __init__(self, form: AgentForm) -> None:
        self._seconds = form.timeout / 1000
        self._ask = _entry(load_object(form.endpoint, "agent.endpoint"), form)
        name = form.reset_function
        self._reset: Callable[[], Any] | None = load_object(name, "agent.reset_function") if name else None
        self.can_reset = self._reset is not None
        self._performer = Performer()

    def check(self) -> None:
        """Do nothing: it was loaded, so it is there."""

    def ask(self, prompt: str) -> Answer:
        """Call the agent; what it raises is its error, and a call that takes too long is left behind."""
        began = time.perf_counter()
        text, error = "", ""
        try:
            text = _shown(self._perform(self._ask, (prompt,), self._seconds))
        except TimedOutError:
            error = f"the agent did not answer in {self._seconds * 1000:.0f} ms"
        except BaseException as failure:  # the agent's own: even SystemExit ends only its cell
            if isinstance(failure, KeyboardInterrupt):
                raise
            error = f"{type(failure).__name__}: {failure}"
        return Answer(text, (time.perf_counter() - began) * 1000, error)

    def reset(self) -> None:
        """Call the reset function."""
        if self._reset is None:
            return
        try:
            self._perform(self._reset, (), RESET_SECONDS)
        except TimedOutError:
            raise ResetError(f"reset_function did not return in {RESET_SECONDS:g} s") from None
        except Exception as failure:  # noqa: BLE001  # whatever it was, the state is unknown
            raise ResetError(f"reset_function failed: {type(failure).__name__}: {failure}") from None

    def close(self) -> None:
        """Let the thread end."""
        self._performer.leave()

    def _perform(self, function: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> Any:
        try:
            return self._performer.perform(function, args, seconds)
        except TimedOutError:
            # Nobody can stop a thread. It keeps its event loop; the next call gets a new one. What it calls from now on
            # belongs to no scene.
            STAGE.left_behind.add(self._performer.thread)
            self._performer.leave()
            self._performer = Performer()
            raise


class TimedOutError(Exception):
    """The call did not come back; a TimeoutError would be taken for one that the agent raised."""


class Performer:
    """A thread with an event loop that lives as long as it does: what an async agent opened stays usable."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.thread = Thread(target=self._run, name="contract-agent", daemon=True)
        self.thread.start()

    def perform(self, function: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> Any:
        """Return what the function returns, awaited if need be; TimedOutError when it takes longer.

        After a TimedOutError the thread is at something that nobody waits for: leave it.
        """
        self._jobs.put((function, args))
        try:
            result, error = self._outcomes.get(timeout=seconds)
        except Empty:
            raise TimedOutError from None
        if error is not None:
            raise error
        return result

    def leave(self) -> None:
        """Let the thread end when it has finished what it is at."""
        self._jobs.put(None)

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            while (job := self._jobs.get()) is not None:
                function, args = job
                try:
                    result = function(*args)
                    if inspect.isawaitable(result):
                        result = loop.run_until_complete(_awaited(result))
                except BaseException as error:  # noqa: BLE001  # handed to whoever waits
                    self._outcomes.put((None, error))
                else:
                    self._outcomes.put((result, None))
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


def load_object(name: str, what: str) -> Any:
    """Return what ``module:attribute`` names, or raise SettingsError."""
    module_name, separator, path = name.partition(":")
    if not separator or not module_name or not path:
        raise SettingsError(f"{what} is {name!r}; write module:callable, such as my_agent:answer")
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # noqa: BLE001  # a module may fail in any way while it is loaded
        raise SettingsError(f"{what} {name!r} cannot be loaded: {type(error).__name__}: {error}") from None
    return found


def _entry(found: Any, form: AgentForm) -> Callable[[str], Any]:
    """Return what is called with a prompt."""
    thing = found() if inspect.isclass(found) else found
    if form.type == "langchain":
        chain: Any = getattr(thing, "invoke", None) or thing
        return lambda prompt: chain({"input": prompt})
    entry = getattr(thing, "invoke", None) or thing
    if not callable(entry):
        raise SettingsError(f"agent.endpoint {form.endpoint!r} is {type(thing).__name__}, which cannot be called")
    called: Callable[[str], Any] = entry
    return called


def _shown(result: Any) -> str:
    if isinstance(result, dict):
        result = next((result[key] for key in ("output", "text", "answer") if result.get(key) is not None), result)
    if result is None:
        return ""
    return result if isinstance(result, str) else as_text(result)


async def _awaited(result: Any) -> Any:
    return await result
