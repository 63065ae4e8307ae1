"""Python functions as models and tools that a scenario can break: wrapped calls meet its faults and are recorded."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from stream_guard_contract.faults import (
    MODEL_TIMEOUT,
    REPLACES_CALL,
    TOOL_PAYLOAD,
    TriggeredToolFault,
    into_answer,
    malform,
    tool_delay,
    tool_error_reply,
)
from stream_guard_contract.recording import FaultId, as_text
from stream_guard_contract.scenario_run import ACTIVE_RUN, OpenToolCall, ScenarioRun, WrappedModelCall

# Python functions as models that a scenario can break: wrapped calls meet its faults and are recorded.
#
# For agents that call their model as a function, such as a scripted model in a test; agents that reach it over HTTP use
# the proxy. The first argument is the messages or a text; the result is the text of the answer.

Function = TypeVar("Function", bound=Callable[..., Any])


class _UnavailableError(ConnectionError):
    """A scenario has taken something down; ``status`` is the HTTP status it stands for."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


class ModelUnavailableError(_UnavailableError):
    """A scenario has taken the model down; ``status`` is the HTTP status it stands for."""


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


# Python functions as tools that a scenario can break: wrapped calls meet its faults and are recorded.
#
# Outside ``contract run`` a wrapped tool only calls the function, so it can stay wrapped in production.


class ToolUnavailableError(_UnavailableError):
    """A scenario has taken the tool down; ``status`` is the HTTP status it stands for."""


def tool(function: Function, *, name: str = "") -> Function:
    """Return the function, plain or ``async``, as a tool that scenarios can break; its name is the function's."""
    wrap = _wrap_async if inspect.iscoroutinefunction(function) else _wrap_plain
    return cast("Function", wrap(function, name or function.__name__))


def tools(functions: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return the functions as wrapped tools by name, for agents that keep their tools in a mapping."""
    named = functions if isinstance(functions, Mapping) else {function.__name__: function for function in functions}
    return {name: tool(function, name=name) for name, function in named.items()}


def _wrap_plain(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    signature = _signature(function)

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        run = ACTIVE_RUN.current
        if run is None:
            return function(*args, **kwargs)
        call = run.begin_tool_call(label, _arguments(signature, args, kwargs))
        delay = _delay(call)
        if delay:
            time.sleep(delay)
        if call.triggered is not None and call.triggered.fault.mode in REPLACES_CALL:
            return _replace_call(run, call, call.triggered)
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            _record_error(run, call, error)
            raise
        return _apply_faults(run, call, result)

    return wrapped


def _wrap_async(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    signature = _signature(function)

    @wraps(function)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        run = ACTIVE_RUN.current
        if run is None:
            return await function(*args, **kwargs)
        call = run.begin_tool_call(label, _arguments(signature, args, kwargs))
        delay = _delay(call)
        if delay:
            await asyncio.sleep(delay)
        if call.triggered is not None and call.triggered.fault.mode in REPLACES_CALL:
            return _replace_call(run, call, call.triggered)
        try:
            result = await function(*args, **kwargs)
        except Exception as error:
            _record_error(run, call, error)
            raise
        return _apply_faults(run, call, result)

    return wrapped


def _delay(call: OpenToolCall) -> float:
    return tool_delay(call.triggered.fault) if call.triggered is not None else 0.0


def _replace_call(run: ScenarioRun, call: OpenToolCall, triggered: TriggeredToolFault) -> str:
    """Return the payload, or raise the error, of a fault that replaces the call."""
    met, fault = triggered
    if fault.mode == "malicious_response":
        payload = fault.payload or TOOL_PAYLOAD
        run.end_tool_call(call, payload, [met])
        return payload
    status, text = tool_error_reply(fault)
    run.end_tool_call(call, text, [met], failed=True)
    if fault.mode == "timeout":
        raise TimeoutError(text)
    raise ToolUnavailableError(text, status)


def _record_error(run: ScenarioRun, call: OpenToolCall, error: Exception) -> None:
    run.end_tool_call(call, f"{type(error).__name__}: {error}", _slow_fault(call), failed=True)


def _apply_faults(run: ScenarioRun, call: OpenToolCall, result: Any) -> Any:
    """Return the result as the agent gets it, and record it."""
    met = _slow_fault(call)
    if call.triggered is not None and call.triggered.fault.mode == "malformed":
        result = malform(result if isinstance(result, str) else as_text(result))
        met = [call.triggered.fault_id]
    for injected in call.injected:
        result = into_answer(result, injected.text, injected.strategy)
        met.append(injected.fault_id)
    run.end_tool_call(call, result, met)
    return result


def _slow_fault(call: OpenToolCall) -> list[FaultId]:
    return [call.triggered.fault_id] if call.triggered is not None and call.triggered.fault.mode == "slow" else []


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):  # some built-in functions have no signature
        return None


def _arguments(signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name; arguments that do not fit the signature are recorded as given."""
    if not args:
        return kwargs
    try:
        bound = signature.bind(*args, **kwargs).arguments if signature is not None else {}
    except TypeError:
        bound = {}
    return dict(bound) or {"args": list(args), **kwargs}
