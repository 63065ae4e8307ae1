"""A model that is a Python function, under a contract: wrapped, it meets the faults that a model meets.

For agents that reach their model over HTTP there is the proxy; this is for those that call a function, such as a
scripted model in a test. The function gets messages or a text first, and returns the text of the answer.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from stream_guard_contract.completions import Said
from stream_guard_contract.faults import Refused, distort, llm_delay
from stream_guard_contract.labels import FaultMet
from stream_guard_contract.scene import Scene
from stream_guard_contract.stage import STAGE

Function = TypeVar("Function", bound=Callable[..., Any])


class ModelUnavailableError(ConnectionError):
    """A model that a scenario has taken down; ``status`` is what it would have answered over HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


def model(function: Function) -> Function:
    """Return the function, plain or ``async``, as a model that scenarios can break."""
    STAGE.is_model_wrapped = True

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def asked_later(*args: Any, **kwargs: Any) -> Any:
            scene = STAGE.current
            if scene is None:
                return await function(*args, **kwargs)
            question = Question(scene, args)
            if question.delay:
                await asyncio.sleep(question.delay)
            question.refuse()
            try:
                result = await function(*question.args, **kwargs)
            except Exception as error:
                question.fail(error)
                raise
            return question.answer(result)

        return cast("Function", asked_later)

    @wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        scene = STAGE.current
        if scene is None:
            return function(*args, **kwargs)
        question = Question(scene, args)
        if question.delay:
            time.sleep(question.delay)
        question.refuse()
        try:
            result = function(*question.args, **kwargs)
        except Exception as error:
            question.fail(error)
            raise
        return question.answer(result)

    return cast("Function", asked)


class Question:
    """One call of the model: what it is asked after the attacks, and what the agent gets."""

    def __init__(self, scene: Scene, args: tuple[Any, ...]) -> None:
        self._scene = scene
        self._asked = scene.begin_model({"messages": args[0] if args else None})
        self._hit = self._asked.hit
        self.delay = llm_delay(self._hit.fault) if self._hit is not None else 0.0
        self.args = (self._asked.request["messages"], *args[1:]) if args else args

    def refuse(self) -> None:
        """Raise where the fault is that no answer comes."""
        refused = distort("", self._hit.fault) if self._hit is not None else ""
        if self._hit is None or not isinstance(refused, Refused):
            return
        self._end(refused.body, [self._hit.met])
        if self._hit.fault.mode == "timeout":
            raise TimeoutError(refused.body)
        raise ModelUnavailableError(refused.body, refused.status)

    def fail(self, error: Exception) -> None:
        """Write down that the model failed of itself."""
        self._end(f"{type(error).__name__}: {error}", [])

    def answer(self, result: Any) -> Any:
        """Return the answer as the agent gets it; what is no text is passed on as it is."""
        if not isinstance(result, str):
            self._end(Said(text=str(result), finish="stop"), [])
            return result
        text = distort(result, self._hit.fault) if self._hit is not None else result
        changed = str(text)
        self._end(Said(text=changed, finish="stop"), [self._hit.met] if self._hit and changed != result else [])
        return changed

    def _end(self, said: Said | str, met: list[FaultMet]) -> None:
        self._scene.end_model(self._asked, said, met)
