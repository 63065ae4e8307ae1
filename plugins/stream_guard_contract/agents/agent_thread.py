"""The thread in which a Python agent is called; a thread whose call timed out is abandoned."""

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
