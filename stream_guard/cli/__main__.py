"""``python -m stream_guard.cli`` is ``stream-guard``."""

from __future__ import annotations

from stream_guard.cli.process import main

main()
