"""The command line: one file per group of commands; each parses, calls, prints and exits."""

import gc
import sys

__all__ = ["YOUNG_OBJECTS", "main"]

# Every event makes dozens of objects, and sessions keep some of them: at Python's own 700 the collector looks for
# circles between them at every few events. docs/performance.md has what was measured.
YOUNG_OBJECTS = 10_000


def main() -> None:
    """Run the command line and leave with its exit code. A hook of an agent starts without all the rest."""
    if sys.argv[1:2] == ["hook"]:
        from stream_guard.agent_hooks.command import main as run_hook

        code = run_hook(sys.argv[2:])
        if code is not None:
            sys.exit(code)
    gc.set_threshold(YOUNG_OBJECTS)
    from stream_guard.cli.app import main as run

    run()
