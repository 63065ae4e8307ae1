"""Charts, drawn here as SVG: no script, no style in the markup, and a sentence for those who do not see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

_GAP: Final = 0.25  # of a bar's width


def bars(values: Sequence[int], label: str, *, width: int = 240, height: int = 40, tone: str = "plain") -> Markup:
    """Return a bar for each value; ``tone`` is a class of the style sheet."""
    most = max([*values, 1])
    step = width / max(1, len(values))
    drawn = Markup().join(
        Markup('<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" rx="1"/>').format(
            number * step, height - size, max(0.5, step * (1 - _GAP)), size
        )
        for number, value in enumerate(values)
        if value and (size := max(2.0, value / most * (height - 2)))
    )
    return _chart(drawn, label, width, height, f"bars tone-{tone}")


def share(part: float | None, label: str, *, width: int = 64, height: int = 8, tone: str = "plain") -> Markup:
    """Return a bar that is filled to a share from 0 to 1; an empty one where there is nothing to show."""
    filled = 0.0 if part is None else max(0.0, min(1.0, part))
    drawn = Markup(
        '<rect class="track" width="{0}" height="{1}" rx="{2}"/><rect width="{3:.2f}" height="{1}" rx="{2}"/>'
    ).format(width, height, height / 2, filled * width)
    return _chart(drawn, label, width, height, f"share tone-{tone}")


def strip(kinds: Sequence[str], marks: Sequence[tuple[int, str]], total: int, label: str) -> Markup:
    """Return a session at a glance: a tick for each part of it, by what happened there, and a mark for each finding."""
    width, height = 960, 34
    step = width / max(1, len(kinds))
    ticks = Markup().join(
        Markup('<rect class="tick-{}" x="{:.2f}" y="14" width="{:.2f}" height="12" rx="1"/>').format(
            kind, number * step, max(0.6, step - min(1.0, step * _GAP))
        )
        for number, kind in enumerate(kinds)
        if kind
    )
    pins = Markup().join(
        Markup('<path class="pin pin-{}" d="M{x:.2f} 12l-4 -9h8z"/>').format(
            severity, x=min(width - 4.0, max(4.0, (number - 0.5) / max(1, total) * width))
        )
        for number, severity in marks
    )
    return _chart(ticks + pins, label, width, height, "strip")


def _chart(drawn: Markup, label: str, width: float, height: float, names: str) -> Markup:
    return Markup(
        '<svg class="chart {}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(names, width, height, label, drawn)
