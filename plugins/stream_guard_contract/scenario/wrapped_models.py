"""Python functions as models that a scenario can break: wrapped calls meet its faults and are recorded.

For agents that call their model as a function, such as a scripted model in a test; agents that reach it over HTTP use
the proxy. The first argument is the messages or a text; the result is the text of the answer.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from stream_guard_contract.faults.effects import ErrorReply, distort, llm_delay
from stream_guard_contract.recording.labels import FaultId
from stream_guard_contract.scenario.completions import Completion
from stream_guard_contract.scenario.scenario_run import ACTIVE_RUN, ScenarioRun

Function = TypeVar("Function", bound=Callable[..., Any])


class ModelUnavailableError(ConnectionError):
    """A scenario has taken the model down; ``status`` is the HTTP status it stands for."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


def model(function: Function) -> Function:
    """Return the function, plain or ``async``, as a model that scenarios can break."""
    ACTIVE_RUN.is_model_wrapped = True

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def wrapped_async(*args: Any, **kwargs: Any) -> Any:
            run = ACTIVE_RUN.current
            if run is None:
                return await function(*args, **kwargs)
            call = WrappedModelCall(run, args)
            if call.delay:
                await asyncio.sleep(call.delay)
            call.raise_fault()
            try:
                result = await function(*call.args, **kwargs)
            except Exception as error:
                call.fail(error)
                raise
            return call.answer(result)

        return cast("Function", wrapped_async)

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        run = ACTIVE_RUN.current
        if run is None:
            return function(*args, **kwargs)
        call = WrappedModelCall(run, args)
        if call.delay:
            time.sleep(call.delay)
        call.raise_fault()
        try:
            result = function(*call.args, **kwargs)
        except Exception as error:
            call.fail(error)
            raise
        return call.answer(result)

    return cast("Function", wrapped)


class WrappedModelCall:
    """One call of a wrapped model: its arguments after the attacks, and what the agent gets back."""

    def __init__(self, run: ScenarioRun, args: tuple[Any, ...]) -> None:
        self._run = run
        self._call = run.begin_model_call({"messages": args[0] if args else None})
        self._triggered = self._call.triggered
        self.delay = llm_delay(self._triggered.fault) if self._triggered is not None else 0.0
        self.args = (self._call.request["messages"], *args[1:]) if args else args

    def raise_fault(self) -> None:
        """Record and raise the error of a fault that replaces the call; do nothing for other faults."""
        reply = distort("", self._triggered.fault) if self._triggered is not None else ""
        if self._triggered is None or not isinstance(reply, ErrorReply):
            return
        self._end(reply.body, [self._triggered.fault_id])
        if self._triggered.fault.mode == "timeout":
            raise TimeoutError(reply.body)
        raise ModelUnavailableError(reply.body, reply.status)

    def fail(self, error: Exception) -> None:
        """Record that the model itself raised an error."""
        self._end(f"{type(error).__name__}: {error}", [])

    def answer(self, result: Any) -> Any:
        """Record the answer and return it as the agent gets it; anything but a text is returned unchanged."""
        if not isinstance(result, str):
            self._end(Completion(text=str(result), finish="stop"), [])
            return result
        changed = str(distort(result, self._triggered.fault)) if self._triggered is not None else result
        met = [self._triggered.fault_id] if self._triggered and changed != result else []
        self._end(Completion(text=changed, finish="stop"), met)
        return changed

    def _end(self, completion: Completion | str, met: list[FaultId]) -> None:
        self._run.end_model_call(self._call, completion, met)
