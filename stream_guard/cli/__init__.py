"""The command line: one file per group of commands; each parses, calls, prints and exits."""

import gc
import sys

__all__ = ["YOUNG_OBJECTS", "main", "pass_over_loaded"]

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


def pass_over_loaded() -> None:
    """Let the collector pass over what is loaded by now: it stays to the end, and is most of what there is to look at.

    Only where the process is the command's own: elsewhere this would keep what others want to be rid of.
    """
    if gc.get_threshold()[0] == YOUNG_OBJECTS:
        gc.freeze()
