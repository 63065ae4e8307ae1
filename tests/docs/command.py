"""``stream-guard`` for the shell of a page: asks the server of the tests for a copy, and ends as the copy does.

python -I -S command.py CONNECTION PACKAGES ARGUMENT...

CONNECTION is the file number of the connection to the server (``tests/process_server.py``), PACKAGES the folder that
the page installs packages into.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.process_server import ANSWER, Start, receive, send


def main(connection: str, packages: str, *arguments: str) -> int:
    """Return the exit code of the copy."""
    answers, theirs = socket.socketpair()
    with socket.socket(fileno=int(connection)) as server, theirs:
        start = Start(list(arguments), dict(os.environ), str(Path.cwd()), packages)
        send(server, start, [0, 1, 2, theirs.fileno()])
    receive(answers, ANSWER.size)  # it runs
    _, status = ANSWER.unpack(receive(answers, ANSWER.size))
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
