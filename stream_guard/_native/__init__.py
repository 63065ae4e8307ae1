"""The native module: leaf functions, bytes in and values out, built into the compiled wheel (docs/adr/0025).

Whoever calls one asks for it here, and has a way of its own where there is none: ``is_plain_json`` is None then.
"""

from __future__ import annotations

from collections.abc import Callable

is_plain_json: Callable[[bytes], bool] | None
try:
    from stream_guard._native.plain_json import is_plain_json
except ImportError:  # a clone, or a platform without a wheel
    is_plain_json = None
