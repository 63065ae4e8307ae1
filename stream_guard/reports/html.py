"""Pages of one file for a browser: no script, no network, and what an agent wrote is only text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from stream_guard.reports.safe import number, visible


def load_template(package: str, name: str, **filters: Callable[..., Any]) -> Template:
    """Return a template of a package; it has the filters ``visible`` and ``number`` besides its own."""
    return _load(package, name, tuple(filters.items()))


@cache
def _load(package: str, name: str, filters: tuple[tuple[str, Callable[..., Any]], ...]) -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"visible": visible, "number": number, **dict(filters)}
    return environment.from_string(files(package).joinpath(name).read_text(encoding="utf-8"))
