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

from stream_guard_contract.faults.effects import MODEL_TIMEOUT
from stream_guard_contract.scenario.scenario_run import ACTIVE_RUN
from stream_guard_contract.scenario.wrapped_model_call import WrappedModelCall

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
            _raise_fault(call)
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
        _raise_fault(call)
        try:
            result = function(*call.args, **kwargs)
        except Exception as error:
            call.fail(error)
            raise
        return call.answer(result)

    return cast("Function", wrapped)


def _raise_fault(call: WrappedModelCall) -> None:
    """Raise the error of a fault that replaces the call; do nothing for other faults."""
    reply = call.replaced()
    if reply is None:
        return
    if reply.status == MODEL_TIMEOUT:
        raise TimeoutError(reply.body)
    raise ModelUnavailableError(reply.body, reply.status)
