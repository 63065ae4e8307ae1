"""Commands in a real terminal of 80 columns, and what stands on its screen afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from tests import processes

COLUMNS, ROWS = 80, 40
# A terminal as people have it, wherever the tests run: its own size, no colours asked for, one time zone.
_VARIABLES = {"TERM": "xterm", "TZ": "UTC", "NO_COLOR": "1", "COLUMNS": "", "LINES": "", "CI": ""}
_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")


class Screen(NamedTuple):
    """What a command left on the screen, without colours, and its exit code."""

    text: str
    code: int

    @property
    def widest(self) -> int:
        """The length of the longest line."""
        return max(map(len, self.text.splitlines()), default=0)


def show(*arguments: object, folder: Path, timeout: float = 300, progress: bool = True) -> Screen:
    """Run ``stream-guard`` in a terminal to its end; ``progress`` appears where the work takes long."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    written: list[bytes] = []
    reader = Thread(target=_read, args=(ours, written))
    reader.start()
    errors = theirs if progress else subprocess.DEVNULL
    try:
        process = processes.start(*arguments, cwd=folder, env=_VARIABLES, stdin=theirs, stdout=theirs, stderr=errors)
    finally:
        os.close(theirs)
    try:
        code = process.wait(timeout)
    except BaseException:
        process.kill()
        raise
    finally:
        reader.join()
        os.close(ours)
    return Screen(_as_shown(b"".join(written).decode()), code)


def _read(terminal: int, written: list[bytes]) -> None:
    """Read until the last process has closed the terminal."""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # how Linux says that nobody holds the other end
            return
        if not data:
            return
        written.append(data)


def _as_shown(text: str) -> str:
    """Return the lines as they stand on the screen: of a line that was written anew, what was written last."""
    lines = _CONTROL.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].rstrip() for line in lines)
