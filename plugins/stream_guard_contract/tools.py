"""Python tools under a contract: wrapped, they meet the faults of the scene that is played, and are recorded.

Outside ``contract run`` a wrapped tool is the tool itself, at the price of one look at a variable; it can stay wrapped.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from stream_guard_contract.attacks import into_answer
from stream_guard_contract.faults import TOOL_PAYLOAD, UNASKED, malform, tool_delay, tool_refusal
from stream_guard_contract.labels import FaultMet
from stream_guard_contract.recording import as_text
from stream_guard_contract.scene import Call, Scene
from stream_guard_contract.stage import STAGE
from stream_guard_contract.storm import ToolHit

Function = TypeVar("Function", bound=Callable[..., Any])


class ToolUnavailableError(ConnectionError):
    """A tool that a scenario has taken down; ``status`` is what it would have answered over HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


def tool(function: Function, *, name: str = "") -> Function:
    """Return the function, plain or ``async``, as a tool that scenarios can break; it is named for the function."""
    wrap = _wrap_async if inspect.iscoroutinefunction(function) else _wrap_plain
    return cast("Function", wrap(function, name or function.__name__))


def tools(functions: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return the functions as tools by name, for agents that keep their tools in a table."""
    named = functions if isinstance(functions, Mapping) else {function.__name__: function for function in functions}
    return {name: tool(function, name=name) for name, function in named.items()}


def _wrap_plain(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    signature = _signature(function)

    @wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        scene = STAGE.current
        if scene is None:
            return function(*args, **kwargs)
        call = scene.begin_call(label, _named(signature, args, kwargs))
        delay = _delay(call)
        if delay:
            time.sleep(delay)
        if call.hit is not None and call.hit.fault.mode in UNASKED:
            return _answer_instead(scene, call, call.hit)
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            _fail(scene, call, error)
            raise
        return _change(scene, call, result)

    return asked


def _wrap_async(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    signature = _signature(function)

    @wraps(function)
    async def asked(*args: Any, **kwargs: Any) -> Any:
        scene = STAGE.current
        if scene is None:
            return await function(*args, **kwargs)
        call = scene.begin_call(label, _named(signature, args, kwargs))
        delay = _delay(call)
        if delay:
            await asyncio.sleep(delay)
        if call.hit is not None and call.hit.fault.mode in UNASKED:
            return _answer_instead(scene, call, call.hit)
        try:
            result = await function(*args, **kwargs)
        except Exception as error:
            _fail(scene, call, error)
            raise
        return _change(scene, call, result)

    return asked


def _delay(call: Call) -> float:
    return tool_delay(call.hit.fault) if call.hit is not None else 0.0


def _answer_instead(scene: Scene, call: Call, hit: ToolHit) -> str:
    """Answer for a tool that is not asked: with a payload, or by raising what its failure raises."""
    met, fault = hit
    if fault.mode == "malicious_response":
        payload = fault.payload or TOOL_PAYLOAD
        scene.end_call(call, payload, [met])
        return payload
    status, text = tool_refusal(fault)
    scene.end_call(call, text, [met], failed=True)
    if fault.mode == "timeout":
        raise TimeoutError(text)
    raise ToolUnavailableError(text, status)


def _fail(scene: Scene, call: Call, error: Exception) -> None:
    scene.end_call(call, f"{type(error).__name__}: {error}", _late(call), failed=True)


def _change(scene: Scene, call: Call, result: Any) -> Any:
    """Return a tool's answer as the agent gets it."""
    met = _late(call)
    if call.hit is not None and call.hit.fault.mode == "malformed":
        result = malform(result if isinstance(result, str) else as_text(result))
        met = [call.hit.met]
    for planted in call.planted:
        result = into_answer(result, planted.text, planted.strategy)
        met.append(planted.met)
    scene.end_call(call, result, met)
    return result


def _late(call: Call) -> list[FaultMet]:
    return [call.hit.met] if call.hit is not None and call.hit.fault.mode == "slow" else []


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):  # some built-in functions have none
        return None


def _named(signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name; a call that does not fit is the tool's to refuse, and is recorded as it is."""
    if not args:
        return kwargs
    try:
        bound = signature.bind(*args, **kwargs).arguments if signature is not None else {}
    except TypeError:
        bound = {}
    return dict(bound) or {"args": list(args), **kwargs}
