"""Redaction: what a kilobyte costs, without secrets and with them, and how much of planted secrets is shown."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from stream_guard.redaction import mask_secrets
from tests.bench.measure import Work, best_of
from tests.unit.redaction.planted import draw, drawn_parts, shapes, texts_with

ROOT = Path(__file__).parent.parent.parent
_KILOBYTES = 100


def measure() -> dict[str, Any]:
    """Return microseconds a kilobyte for prose and code, for texts full of secrets, and the share that is shown."""
    honest = [line for page in sorted(ROOT.glob("docs/*.md")) for line in page.read_text(encoding="utf-8").splitlines()]
    random = Random(1)  # the same secrets in every run
    planted = [
        (text, drawn_parts(shape, secret))
        for _, shape in shapes()
        for secret in [draw(shape, random)]
        for text in texts_with(secret)
    ]
    kinds = {"honest": _cut(honest), "planted": _cut([text for text, _ in planted])}

    def contender(texts: list[str]) -> Work:
        return lambda: [mask_secrets(text) for text in texts] and None

    least = best_of({name: contender(texts) for name, texts in kinds.items()})
    shown = sum(any(part in mask_secrets(text) for part in parts) for text, parts in planted)
    return {
        "us_per_kb": {name: seconds / _KILOBYTES * 1e6 for name, seconds in least.items()},
        "planted": {"texts": len(planted), "shown": shown},
    }


def _cut(texts: list[str]) -> list[str]:
    kept, size = list[str](), 0
    for text in texts:
        if size >= _KILOBYTES * 1024:
            break
        kept.append(text)
        size += len(text)
    return kept
