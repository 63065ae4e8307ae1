"""``python -m stream_guard.cli`` is ``stream-guard``."""

from stream_guard.cli.app import main

main()
