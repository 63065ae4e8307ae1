"""The figures of a soak as a table and as small plots, one above the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Final

import numpy as np

WIDTH: Final = 820
HEIGHT: Final = 70
LEFT: Final = 190


def table(times: Sequence[float], series: Mapping[str, Sequence[float]], flat: Mapping[str, bool]) -> str:
    """Return a table: the mean of each quarter, and whether the figure stays flat after the first."""
    bounds = [len(times) * part // 4 for part in range(5)]
    lines = ["| figure | first quarter | second | third | fourth | flat |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    for name, values in series.items():
        means = [float(np.nanmean(values[low:high])) for low, high in pairwise(bounds)]
        cells = " | ".join(f"{mean:.1f}" for mean in means)
        lines.append(f"| {name} | {cells} | {'yes' if flat[name] else 'NO'} |")
    return "\n".join(lines)


def plot(times: Sequence[float], series: Mapping[str, Sequence[float]]) -> str:
    """Return a picture: every figure over the time, from zero to its highest value."""
    height = (HEIGHT + 14) * len(series) + 30
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">']
    for number, (name, values) in enumerate(series.items()):
        base = (HEIGHT + 14) * (number + 1)
        top = max((value for value in values if isfinite(value)), default=1.0) or 1.0
        points = [
            f"{LEFT + (WIDTH - LEFT - 20) * at / times[-1]:.1f},{base - HEIGHT * value / top:.1f}"
            for at, value in zip(times, values, strict=True)
            if isfinite(value)
        ]
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{base}" y2="{base}" stroke="#ddd"/>')
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="#1b6ca8"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{base - HEIGHT / 2}" font-size="12" text-anchor="end">{name}</text>')
        parts.append(f'<text x="{LEFT - 8}" y="{base - HEIGHT + 8}" font-size="10" text-anchor="end">{top:.4g}</text>')
    minutes = f"{times[-1] / 60:.0f} min"
    parts.append(f'<text x="{WIDTH - 20}" y="{height - 8}" font-size="11" text-anchor="end">{minutes}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
