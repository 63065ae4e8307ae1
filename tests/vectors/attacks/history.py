"""A history as people, and intruders, meet it: reviews shown, answers forged, the audit verified."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from stream_guard.history import audit
from stream_guard.history.database import open_database

CLI = (sys.executable, "-m", "stream_guard.cli")


def show_in_terminal(history: Path, review: str) -> str:
    """Return what the command line shows of a review: in the list, and whole."""
    shown = []
    for words in (("list",), ("show", review)):
        command = [*CLI, "reviews", *words, "--history", str(history)]
        shown.append(subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout)
    return "\n".join(shown)


def forge(history: Path, review: str, answer: dict[str, Any]) -> None:
    """Write an answer into the row of a review, past the product and its audit."""
    with closing(sqlite3.connect(history, timeout=10)) as database, database:
        [(body,)] = database.execute("SELECT body FROM sg_reviews WHERE id = ?", (review,)).fetchall()
        forged = json.dumps({**json.loads(body.removeprefix("~")), **answer})
        status = answer.get("status", "approved")
        database.execute("UPDATE sg_reviews SET status = ?, body = ? WHERE id = ?", (status, forged, review))


def is_sound(history: Path) -> bool:
    """Whether the audit of a history verifies."""
    database = open_database(str(history))
    try:
        return not audit.verify(database).problems
    finally:
        database.close()
