"""Parsing of Python sources in a process where anything may wait for the collector."""

from __future__ import annotations

import ast
import gc


def parse(source: str) -> ast.Module:
    """Return the tree of a source, made while the collector rests.

    Python 3.11 fails in `ast.parse` when the collector, started by it, frees a task with a forgotten error: the
    traceback that is then logged is parsed too, with the same count of depth.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_on:
            gc.enable()
