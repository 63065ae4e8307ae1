"""A quick look at a JSON text. The plain build takes none; ``plain_json.c`` is the compiled build's."""

from __future__ import annotations


def is_plain(value: bytes) -> bool:
    """Whether a quick look proves that ``check_json`` has nothing to refuse in a text; False proves nothing."""
    del value
    return False
