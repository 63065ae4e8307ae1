"""A thread for calls that may not come back: they are made in it one after the other, and it can be left behind."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any, Final, TypeAlias

Work: TypeAlias = Callable[[], Any]
Outcome: TypeAlias = tuple[Any, BaseException | None]

_LOOK: Final = 0.05  # seconds after which whoever waits looks again, while no call is on


class TimedOutError(Exception):
    """The call did not come back; a TimeoutError would be taken for one that the agent raised."""


class LeftBehindError(BaseException):
    """Raised in the thread, when a call comes back that nobody waits for any more; no agent's errors are like it."""


class Performer:
    """A thread with an event loop that lives as long as it does: what an async agent opened stays usable.

    Work that makes many calls is handed over once; only a call that is overdue needs a second thread to notice it.
    After a TimedOutError the thread is at something that nobody can stop: leave it, and take another.
    """

    def __init__(self) -> None:
        self._works: SimpleQueue[Work | None] = SimpleQueue()
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._lock = Lock()
        self._deadline: float | None = None  # of the call that is on
        self._is_left = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.thread = Thread(target=self._run, name="contract-agent", daemon=True)
        self.thread.start()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in this thread."""
        return self.thread is current_thread()

    def begin(self, work: Work) -> None:
        """Let the thread do something; its calls go through ``call``."""
        self._works.put(work)

    def wait(self, seconds: float) -> Outcome | None:
        """Return what came of the work, or None when it takes longer; TimedOutError when a call in it does."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            with self._lock:
                deadline = self._deadline
                self._is_left = self._is_left or (deadline is not None and now >= deadline)
            if self._is_left:
                raise TimedOutError
            next_look = min(until, now + _LOOK if deadline is None else deadline)
            try:
                return self._outcomes.get(timeout=max(0.0, next_look - now))
            except Empty:
                if time.monotonic() >= until:
                    return None

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> Any:
        """In the thread: return what the function returns, awaited if need be."""
        with self._lock:
            if self._is_left:
                raise LeftBehindError
            self._deadline = time.monotonic() + seconds
        try:
            result = function(*args)
            if result is not None and type(result) is not str and inspect.isawaitable(result):
                result = self._await(result)
        finally:
            with self._lock:
                self._deadline = None
                is_left = self._is_left
            if is_left:
                raise LeftBehindError
        return result

    def leave(self) -> None:
        """Let the thread end when it has finished what it is at; it makes no more calls."""
        with self._lock:
            self._is_left = True
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
                except BaseException as error:  # noqa: BLE001  # handed to whoever waits
                    self._outcomes.put((None, error))
                else:
                    self._outcomes.put((result, None))
        finally:
            if self._loop is not None:
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
                self._loop.close()


async def _awaited(result: Any) -> Any:
    return await result
