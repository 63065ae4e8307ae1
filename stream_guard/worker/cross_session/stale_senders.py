"""Senders that lag: a partition of which all stamps are old holds the others back for a while, and no longer.

Rules that look across sessions wait for the slowest sender. One that has read everything that was written to it, and
still is far behind, is not slow: its producers' clocks are wrong, or it is given nothing. It is lifted to where the
furthest sender was ``grace`` seconds before. What is still unread lifts nobody: a sender that catches up is waited for.
Only what stands in messages counts, so that a run after a crash repeats what the crash interrupted (docs/adr/0020).
"""

from __future__ import annotations

from typing import Final

from stream_guard.worker.rows import Moment, SenderProgress

_PARTS: Final = 8  # of the grace: how finely moments are kept


class FurthestSender:
    """How far the furthest sender had come, by wall time. Only the last moments are known."""

    def __init__(self, moments: list[Moment], grace: float) -> None:
        self._moments = moments
        self._step = grace / _PARTS
        self._most = 3 * _PARTS

    def note(self, wall: float, watermark: float) -> None:
        """Take note of a sender's watermark; nobody is lifted by what is ahead of its wall time."""
        moments, watermark = self._moments, min(watermark, wall)
        if moments:
            last, furthest = moments[-1]
            wall = max(wall, last)  # the clocks of two workers differ
            if watermark <= furthest:
                return
            if len(moments) > 1 and wall - moments[-2][0] < self._step:
                moments.pop()
        moments.append((wall, watermark))
        del moments[: -self._most]

    def at(self, wall: float) -> float | None:
        """Return the watermark of the furthest sender at a moment; None when that is not known."""
        return next((watermark for moment, watermark in reversed(self._moments) if moment <= wall), None)


def clock_of(sender: SenderProgress) -> float | None:
    """Return the time up to which others have waited for a sender; None when it had no event yet."""
    return None if sender.watermark is None else max(sender.watermark, sender.lifted)


def is_lagging(sender: SenderProgress, grace: float) -> bool:
    """Whether a sender was lifted by more than two honest senders may be apart."""
    return sender.watermark is not None and sender.lifted - sender.watermark > grace
