"""Charts, drawn here as SVG: no script, no style in the markup, and a sentence for those who do not see them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from stream_guard.judge.model import Severity

SEVERITIES: Final = tuple(severity.word for severity in Severity)
_GAP: Final = 0.25  # of a bar's width
TICKS: Final = ("decision", "user", "call", "result", "turn", "end")
# Filled in with words of this module and with numbers: nothing that would have to be escaped, which takes time.
_TICK: Final = '<rect class="tick-{}" x="{:.2f}" y="14" width="{:.2f}" height="12" rx="1"/>'
_PIN_OF: Final = '<path class="pin pin-{}" d="M{:.2f} 12l-4 -9h8z"/>'
_PIN: Final = 6  # units of width that a finding takes on a strip


class ChartTime(msgspec.Struct, frozen=True):
    """When the bars of a chart are: the last of them ends at ``until``."""

    until: float
    seconds: float  # of all bars together


def bars(
    values: Sequence[int],
    label: str,
    when: ChartTime,
    *,
    failed: Sequence[int] = (),
    width: int = 240,
    height: int = 40,
    tone: str = "plain",
) -> Markup:
    """Return a bar for each value, with the part of it that ``failed``; ``tone`` is a class of the style sheet."""
    most = max([*values, 1])
    step = width / max(1, len(values))
    drawn = []
    for number, value in enumerate(values):
        if not value:
            continue
        size = max(2.0, value / most * (height - 2))
        place = (number * step, max(0.5, step * (1 - _GAP)))
        said = f"{_bar_time(when, number, len(values))}: {value:,}"
        bad = failed[number] if failed else 0
        drawn.append(_bar(place, (height - size, size), f"{said}, {bad:,} failed" if bad else said))
        if bad:
            part = max(2.0, size * min(1.0, bad / value))
            drawn.append(_bar(place, (height - part, part), f"{said}, {bad:,} failed", "failed"))
    return _chart(Markup().join(drawn), label, width, height, f"bars tone-{tone}")


def _bar(across: tuple[float, float], down: tuple[float, float], said: str, name: str = "") -> Markup:
    return Markup(
        '<rect{} x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" rx="1"><title>{}</title></rect>'
    ).format(Markup(' class="{}"').format(name) if name else "", across[0], down[0], across[1], down[1], said)


def _bar_time(when: ChartTime, number: int, bars_: int) -> str:
    began = dt.datetime.fromtimestamp(when.until - when.seconds * (1 - number / bars_), dt.UTC)
    return f"{began:%b} {began.day}, {began:%H:%M} UTC"


def strip(
    kinds: Sequence[str], marks: Sequence[tuple[int, str]], total: int, label: str, here: tuple[int, int] = (0, 0)
) -> Markup:
    """Return a session at a glance: a tick for each part of it, by what happened there, and a mark for each finding.

    ``here`` is the part of it that the page shows.
    """
    width, height = 960, 34
    step = width / max(1, len(kinds))
    thick = max(0.6, step - min(1.0, step * _GAP))
    ticks = "".join(_TICK.format(kind, number * step, thick) for number, kind in enumerate(kinds) if kind in TICKS)
    worst: dict[int, str] = {}  # one pin for all findings that would stand in its place
    for number, severity in marks:
        place = int((number - 0.5) / max(1, total) * width / _PIN)
        if severity in SEVERITIES:
            worst[place] = max(severity, worst.get(place, severity), key=SEVERITIES.index)
    pins = "".join(
        _PIN_OF.format(severity, min(width - 4.0, max(4.0, (place + 0.5) * _PIN)))
        for place, severity in sorted(worst.items())
    )
    begin, end = (width * number / max(1, total) for number in here)
    frame = Markup('<rect class="shown-part" x="{:.2f}" y="28" width="{:.2f}" height="4" rx="2"/>').format(
        begin, max(6.0, end - begin)
    )
    return _chart(Markup(ticks + pins) + frame, label, width, height, "strip")  # noqa: S704  # see above


def _chart(drawn: Markup, label: str, width: float, height: float, names: str) -> Markup:
    return Markup(
        '<svg class="chart {}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(names, width, height, label, drawn)
