"""Traces in short: ``u: text`` is what the user says, ``a: text`` what the agent says, ``c: tool name=value`` a call.

``x: text | tool name=value & tool`` is a response that says something and calls tools at once.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any


def events(steps: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield native events."""
    for number, step in enumerate(steps):
        sort, _, body = step.partition(": ")
        common = {"session_id": "s", "event_id": f"e{number}"}
        if sort == "u":
            yield {"kind": "user_message", **common, "text": body}
            continue
        text, calls = (body, []) if step.startswith("a:") else _spoken_and_called(sort, body)
        content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        made = [(f"c{number}-{at}", words) for at, words in enumerate(calls)]
        content += [
            {"type": "tool_use", "id": name, "name": words[0], "input": _args(words[1:])} for name, words in made
        ]
        stop = "tool_use" if made else "end_turn"
        yield {"kind": "turn", **common, "response": {"content": content, "stop_reason": stop}}
        for name, words in made:
            yield {
                "kind": "tool_result",
                **common,
                "event_id": f"r{name}",
                "call_id": name,
                "tool": words[0],
                "output": "ok",
            }


def _spoken_and_called(sort: str, body: str) -> tuple[str, list[list[str]]]:
    text, _, calls = body.partition("|") if sort == "x" else ("", "", body)
    groups: list[list[str]] = [[]]
    for word in shlex.split(calls):
        if word == "&":
            groups.append([])
        else:
            groups[-1].append(word)
    return text.strip(), groups


def _args(words: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
