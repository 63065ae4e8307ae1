"""Axes of ``diff``: two sides of recorded sessions, and what one way of comparing them measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol

import msgspec

from stream_guard.judge.model import Json


class RecordedCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call of a recorded turn; two calls do the same when their tokens are equal."""

    tool: str
    args: Json
    shape: str  # the tool and its sorted argument names
    token: str  # the shape and a digest of the arguments' values


class RecordedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a recording, read once for everything that compares it."""

    index: int
    request: dict[str, Json]
    response: dict[str, Json]
    text: str = ""  # the response's text blocks, joined with a newline
    calls: tuple[RecordedCall, ...] = ()
    stop_reason: str = ""
    refused: bool = False


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded session, as the sides of a diff hold it."""

    session_id: str
    turns: tuple[RecordedTurn, ...] = ()
    failed_results: int = 0  # tool results that were errors
    results: int = 0


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """What an axis compares: sessions that belong together, and in them the turns that do."""

    sessions: tuple[tuple[Recording, Recording], ...]  # baseline and candidate; a side that is missing has no turns
    pairs: tuple[tuple[RecordedTurn, RecordedTurn], ...]  # aligned turns of all sessions
    prices: Mapping[str, Mapping[str, float]] = {}  # US dollars for a million tokens, by model and sort of token


class AxisValues(msgspec.Struct, frozen=True, kw_only=True):
    """What an axis measured, pair by pair; the diff adds the interval and the severity."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    headline: float | None = None  # says more than the statistic over pairs; its distance from 0 is then the difference
    at_least: Literal["none", "minor", "moderate", "severe"] = "none"  # whatever the numbers say
    flags: tuple[str, ...] = ()
    note: str = ""


class DiffAxis(Protocol):
    """One way in which two recordings may differ."""

    name: ClassVar[str]
    unit: ClassVar[str]  # of the values, for people; empty for shares
    statistic: ClassVar[Literal["median", "mean"]]
    scale: ClassVar[
        Literal["relative", "rate", "own"]
    ]  # judged against the baseline, as it is, or by the axis itself (at_least)
    better: ClassVar[Literal["lower", "higher", "same"]]  # a change for the better is reported and never fails a gate

    def measure(self, sides: Sides) -> AxisValues:
        """Measure both sides; pairs that say nothing about this axis are left out."""
