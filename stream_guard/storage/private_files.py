"""Files that hold what agents said: for the account that runs the process, and nobody else."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600


def create_private(path: Path) -> None:
    """Create the file for this account alone, unless it is there; what opens it next says what is wrong with the path.

    A file that is there keeps its mode: whoever widened it may have had a reason.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
