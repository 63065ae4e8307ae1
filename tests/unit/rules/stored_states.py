"""States of rules as a store keeps them."""

from __future__ import annotations

from typing import Any

import msgspec


def stored_size(state: Any) -> int:
    """Return the size of a stored state, which must come back as it was."""
    data = msgspec.msgpack.encode(state)
    assert msgspec.msgpack.decode(data, type=type(state)) == state
    return len(data)
