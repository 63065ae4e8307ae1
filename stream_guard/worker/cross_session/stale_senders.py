"""Stale senders: a partition of which all stamps are old holds the others back for a while, and no longer.

Rules that look across sessions wait for the slowest sender. A sender that has read all of its input and is still far
behind is not slow: the clocks of its producers are wrong, or nothing is written to it. Its watermark is lifted to the
furthest watermark of ``grace`` seconds before. A sender with unread input lifts nobody: the others wait for it.
Only the content of messages counts, so that a run after a crash repeats what the crash interrupted (docs/adr/0020).
"""

from __future__ import annotations

from typing import Final

from stream_guard.worker.rows import SenderProgress, WatermarkSample

_PARTS: Final = 8  # of the grace: the resolution of the samples


class FurthestWatermarks:
    """The furthest watermark of all senders, by wall time. Only the last samples are kept."""

    def __init__(self, samples: list[WatermarkSample], grace: float) -> None:
        self._samples = samples
        self._step = grace / _PARTS
        self._most = 3 * _PARTS

    def note(self, wall: float, watermark: float) -> None:
        """Record a sender's watermark; one that is ahead of its wall time counts as the wall time."""
        samples, watermark = self._samples, min(watermark, wall)
        if samples:
            last, furthest = samples[-1]
            wall = max(wall, last)  # the clocks of two workers differ
            if watermark <= furthest:
                return
            if len(samples) > 1 and wall - samples[-2][0] < self._step:
                samples.pop()
        samples.append((wall, watermark))
        del samples[: -self._most]

    def at(self, wall: float) -> float | None:
        """Return the furthest watermark at a wall time; None when it is not known."""
        return next((watermark for sampled, watermark in reversed(self._samples) if sampled <= wall), None)


def clock_of(sender: SenderProgress) -> float | None:
    """Return the time up to which others have waited for a sender; None when it had no event yet."""
    return None if sender.watermark is None else max(sender.watermark, sender.lifted)


def is_stale(sender: SenderProgress, grace: float) -> bool:
    """Whether a sender was lifted by more than two honest senders may be apart."""
    return sender.watermark is not None and sender.lifted - sender.watermark > grace
