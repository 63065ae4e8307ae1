"""A process of its own for the command line: how it starts, collects garbage and ends.

Only the console script and ``python -m stream_guard.cli`` come here. Whoever runs a command inside another process
calls ``stream_guard.cli.app.run_command_line``, which leaves that process as it was.
"""

from __future__ import annotations

import gc
import sys

__all__ = ["YOUNG_OBJECTS", "main", "pass_over_loaded"]

# Every event makes dozens of objects, and sessions keep some of them: at Python's own 700 the collector looks for
# circles between them at every few events. docs/performance.md has what was measured.
YOUNG_OBJECTS = 10_000
_UNWRITTEN = 3  # INFRASTRUCTURE of stream_guard.commands, which a hook does not load


def main() -> None:
    """Run the command line and end the process with its exit code. A hook of an agent starts without all the rest."""
    if sys.platform == "win32":  # files are locked with fcntl, which it does not have
        print("stream-guard runs on Linux and macOS; on Windows, run it in WSL 2 or in the image", file=sys.stderr)
        sys.exit(2)
    if sys.argv[1:2] == ["hook"]:
        _answer_hook()
    gc.set_threshold(YOUNG_OBJECTS)
    from stream_guard.cli.app import run_command_line

    try:
        run_command_line()
    except SystemExit as ended:
        _end(ended)


def _answer_hook() -> None:
    """Answer a hook and end, unless the command line has to explain the options.

    An agent waits for the process to end. So nothing is collected in it, and it ends without being taken apart.
    """
    import os

    gc.disable()
    from stream_guard.agent_hooks.command import main as run_hook

    code = run_hook(sys.argv[2:])
    if code is None:
        gc.enable()
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def pass_over_loaded() -> None:
    """Let the collector pass over what is loaded by now: it stays to the end, and is most of what there is to look at.

    Only where the process is the command's own: elsewhere this would keep what others want to be rid of.
    """
    if gc.get_threshold()[0] == YOUNG_OBJECTS:
        gc.freeze()


def _end(ended: SystemExit) -> None:
    """End at once where a thread still waits, for a broker say: Python could crash while it tears down what it uses.

    The same where something that was printed cannot be written, on a full disk say. That is no success and no verdict,
    and Python's exit code could say one.
    """
    import logging
    import os
    import threading

    is_written = _write_rest()
    if is_written and not any(thread.daemon for thread in threading.enumerate()):
        raise ended
    logging.shutdown()
    code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    os._exit(code if is_written else max(code, _UNWRITTEN))


def _write_rest() -> bool:
    """Write what is left of what was printed, and return whether it could be written."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
    except OSError:
        return False
    return True
