"""Several workers on one machine: start them, start again those that die, stop all of them together."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from typing import Final, Protocol

from stream_guard.errors import StreamGuardError

CHECK: Final = 0.2  # seconds between two looks at the workers
LEAVE: Final = 60.0  # seconds that all workers together may take to leave; each gives itself less
FIRST_PAUSE: Final = 1.0  # seconds before a worker that died is started again; doubled each time, up to the longest
LONGEST_PAUSE: Final = 30.0
SETTLED: Final = 60.0  # a worker that lived for so long died by accident; else it counts as a failure to start
MOST_FAILURES: Final = 5  # in a row, of one worker
# A worker that is asked to leave while it still starts has nothing to put away, and ends by the signal itself.
IN_GOOD_ORDER: Final = (0, -signal.SIGTERM)
USAGE: Final = 2  # exit code of a worker whose policy or settings are wrong: starting it again changes nothing

_logger = logging.getLogger(__name__)


class WorkerProcess(Protocol):
    """A worker as a process; ``subprocess.Popen`` is one."""

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""

    def terminate(self) -> None:
        """Ask it to leave."""

    def kill(self) -> None:
        """End it at once."""


class WorkersFailedError(StreamGuardError):
    """The workers cannot go on; ``code`` is the exit code of the one that failed."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class _Place:
    """The place of one worker, whichever process has it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: WorkerProcess | None = None
        self.started = 0.0
        self.failures = 0  # in a row
        self.due = 0.0  # when it is started, while no process has the place


class Supervisor:
    """Keeps ``count`` workers running. ``start`` starts the one of a number, from 1 on."""

    def __init__(
        self,
        start: Callable[[int], WorkerProcess],
        count: int,
        *,
        wait: Callable[[float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._places = [_Place(number) for number in range(1, count + 1)]
        self._wait = wait  # for so many seconds, or until a signal came; returns whether one did
        self._clock = clock

    def run(self) -> None:
        """Watch the workers until a signal comes, then stop them; WorkersFailedError when one keeps dying."""
        try:
            while True:
                for place in self._places:
                    self._look_after(place)
                if self._wait(CHECK):
                    break
        except BaseException:
            self._stop()
            raise
        codes = {number: code for number, code in self._stop().items() if code not in IN_GOOD_ORDER}
        if codes:
            failures = ", ".join(f"worker {number} with {code}" for number, code in codes.items())
            raise StreamGuardError(f"not every worker left in good order: {failures}")

    def _look_after(self, place: _Place) -> None:
        now = self._clock()
        if place.process is not None:
            code = place.process.poll()
            if code is None:
                return
            self._note_death(place, code, now)
        if now >= place.due:
            place.process, place.started = self._start(place.number), now

    def _note_death(self, place: _Place, code: int, now: float) -> None:
        place.process = None
        place.failures = 1 if now - place.started >= SETTLED else place.failures + 1
        name = f"worker {place.number} of {len(self._places)}"
        if code == USAGE:
            raise WorkersFailedError(f"{name} was refused, as its last lines say; all workers are stopped", code)
        if place.failures >= MOST_FAILURES:
            raise WorkersFailedError(
                f"{name} ended {place.failures} times in a row soon after its start, last with exit code {code}; "
                "all workers are stopped, and its log says why it ends",
                code,
            )
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (place.failures - 1))
        place.due = now + pause
        _logger.warning("%s ended with exit code %d; it is started again in %g s", name, code, pause)

    def _stop(self) -> dict[int, int]:
        """Ask all workers to leave and wait for them. Return their exit codes; one that stays is killed."""
        running = {place.number: place.process for place in self._places if place.process is not None}
        for process in running.values():
            if process.poll() is None:
                process.terminate()
        end, codes = self._clock() + LEAVE, dict[int, int]()
        while running:
            ended = {number: code for number, process in running.items() if (code := process.poll()) is not None}
            codes |= ended
            for number in ended:
                del running[number]
            if running and self._clock() >= end:
                for number, process in running.items():
                    _logger.error("worker %d did not leave within %g s and is killed", number, LEAVE)
                    process.kill()
                end = self._clock() + LEAVE
            if running:
                time.sleep(CHECK / 4)  # not the wait: a second signal must not turn this into a busy loop
        return codes
