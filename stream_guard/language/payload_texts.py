"""The texts that a payload says: each string by itself, and a command that is given word by word as a line."""

from __future__ import annotations

import shlex

from stream_guard.model import Json


def payload_texts(value: Json) -> list[str]:
    """Return every string in a JSON value and every key of its objects; each is a text of its own.

    Two strings that stand beside each other say nothing together. Only a list of strings that begins with a single
    word may be a command (``["git", "push", "--force"]``): it is there as the line that a shell would be given, too.
    """
    found: list[str] = []
    waiting = [value]
    for item in waiting:  # grows while it is walked: a loop, because recursion has a limit
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            for key, entry in item.items():  # a loop: for the few entries that there are, quicker than to extend
                found.append(key)
                waiting.append(entry)
        elif isinstance(item, list):
            waiting.extend(item)
            if _is_command(item):
                found.append(shlex.join(item))
    return found


def _is_command(items: list[Json]) -> bool:
    first = items[0] if len(items) > 1 else None
    return isinstance(first, str) and len(first.split()) == 1 and all(isinstance(item, str) for item in items)
