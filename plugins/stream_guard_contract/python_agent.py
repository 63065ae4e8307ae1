"""A Python agent: a callable, sync or async, run in a thread that can be left behind when it does not come back."""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Callable, Generator
from typing import Any, Final

from stream_guard.errors import SettingsError
from stream_guard_contract.agent import RESET_SECONDS, Answer, ResetError
from stream_guard_contract.forms import Agent as AgentForm
from stream_guard_contract.performer import LeftBehindError, Performer, TimedOutError
from stream_guard_contract.recording import as_text
from stream_guard_contract.stage import STAGE

_WAKE: Final = 0.05  # seconds after which whoever waits for work in the agent's thread hears how far it is


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
            return self.overdue()
        except BaseException as failure:  # the agent's own: even SystemExit ends only its cell
            if isinstance(failure, KeyboardInterrupt | LeftBehindError):
                raise
            error = f"{type(failure).__name__}: {failure}"
        return Answer(text, (time.perf_counter() - began) * 1000, error)

    def overdue(self) -> Answer:
        """Return the answer of an agent that took too long."""
        spent_ms = self._seconds * 1000
        return Answer("", spent_ms, f"the agent did not answer in {spent_ms:.0f} ms")

    def reset(self) -> None:
        """Call the reset function."""
        if self._reset is None:
            return
        try:
            self._perform(self._reset, (), RESET_SECONDS)
        except TimedOutError:
            raise self.not_reset() from None
        except Exception as failure:  # noqa: BLE001  # whatever it was, the state is unknown
            raise ResetError(f"reset_function failed: {type(failure).__name__}: {failure}") from None

    def not_reset(self) -> ResetError:
        """Return what to raise when the reset took too long."""
        return ResetError(f"reset_function did not return in {RESET_SECONDS:g} s")

    def close(self) -> None:
        """Let the thread end."""
        self._performer.leave()

    def work(self, work: Callable[[], Any]) -> Generator[None, None, None]:
        """Do something that asks and resets in the agent's own thread, where that needs no other to wait for it.

        Yields now and then until it is done. Raises what the work raises, and TimedOutError when the agent takes too
        long; then the work is given up, and so it is when nobody waits for its end.
        """
        self._performer.begin(work)
        is_over, outcome = False, None
        try:
            while outcome is None:
                outcome = self._performer.wait(_WAKE)
                is_over = outcome is not None
                yield
            if outcome[1] is not None:
                raise outcome[1]
        finally:
            if not is_over:
                self._leave_behind()

    def _perform(self, function: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> Any:
        performer = self._performer
        if performer.is_here:
            return performer.call(function, args, seconds)
        results: list[Any] = []
        for _ in self.work(lambda: results.append(performer.call(function, args, seconds))):
            pass
        return results[0]

    def _leave_behind(self) -> None:
        # Nobody can stop a thread. It keeps its event loop; the next call gets a new one. What it calls from now on
        # belongs to no scene.
        STAGE.left_behind.add(self._performer.thread)
        self._performer.leave()
        self._performer = Performer()


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
