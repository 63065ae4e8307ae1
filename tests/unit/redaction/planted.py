"""Secrets drawn from their published shapes, and the texts they turn up in."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import quote

_SHAPES: Final = Path(__file__).parents[2] / "golden" / "redaction" / "shapes.txt"
_ALPHABETS: Final = {
    "A": string.ascii_letters + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "w": string.ascii_letters + string.digits + "-_",
    "h": "0123456789abcdef",
    "E": "0123456789ABCDEF",
    "d": string.digits,
    "b": string.ascii_letters + string.digits + "+/",
}
_HOLE: Final = re.compile(r"\{([A-Za-z])([0-9]*)\}")

CONTEXTS: Final = (
    "I used %s for the call and it worked.",
    "%s",
    "(%s)",
    "`%s`",
    "GET https://api.example.com/v1/items?q=%s&page=2",
    "curl -s -H 'X-Custom: %s' https://api.example.com/v1/me",
    'ERROR upstream said {\\"sent\\":\\"%s\\"} and closed',
    '{"config": {"value": "%s"}, "n": 1}',
    "value=%s",
    "first line\\n%s\\nlast line",
    "x: %s, y: 2",
    "<value>%s</value>",
    "Zm9vYmFyYmF6cXV4MTIz %s Zm9vYmFyYmF6cXV4MTIz",
    "2026-01-05T08:00:00Z INFO job=3 %s done",
    "export VALUE=%s; node send.js",
)


def shapes() -> list[tuple[str, str]]:
    """Return vendors and templates."""
    lines = _SHAPES.read_text(encoding="utf-8").splitlines()
    return [(vendor, shape) for line in lines if not line.startswith("#") for vendor, shape in [line.split("\t")]]


def draw(shape: str, random: Random) -> str:
    """Return a secret of the shape."""

    def fill(hole: re.Match[str]) -> str:
        if hole[1] == "u":
            return "-".join(_signs("h", count, random) for count in (8, 4, 4, 4, 12))
        return _signs(hole[1], int(hole[2]), random)

    return _HOLE.sub(fill, shape)


def _signs(alphabet: str, count: int, random: Random) -> str:
    return "".join(random.choices(_ALPHABETS[alphabet], k=count))


def drawn_parts(shape: str, secret: str) -> list[str]:
    """Return the pieces of the secret that were drawn: none of them may be shown."""
    pattern = ""
    at = 0
    for hole in _HOLE.finditer(shape):
        count = 36 if hole[1] == "u" else int(hole[2])
        pattern += re.escape(shape[at : hole.start()]) + f"(.{{{count}}})"
        at = hole.end()
    match = re.fullmatch(pattern + re.escape(shape[at:]), secret)
    assert match
    return [part for part in match.groups() if len(part) >= 12]


def texts_with(secret: str) -> Iterator[str]:
    """Yield the texts that hold the secret."""
    for context in CONTEXTS:
        yield context % secret
    yield json.dumps({"a": json.dumps({"b": secret})})
    yield f"https://example.com/?next={quote(f'/a?b={secret}', safe='')}"
