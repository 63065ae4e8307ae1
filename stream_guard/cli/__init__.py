"""The command line: one file per group of commands; each parses, calls, prints and exits."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code. A hook of an agent starts without all the rest."""
    if sys.argv[1:2] == ["hook"]:
        from stream_guard.agent_hooks.command import main as run_hook

        code = run_hook(sys.argv[2:])
        if code is not None:
            sys.exit(code)
    from stream_guard.cli.app import main as run

    run()
