"""The command line under a clock that can be put forward: ``python shifted_clock.py FILE ARGUMENTS...``.

The file holds the seconds by which ``time.time`` is ahead; it may change at any moment.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

_FILE = Path(sys.argv[1])
_true_time = time.time


def _shifted() -> float:
    return _true_time() + float(_FILE.read_text(encoding="utf-8") or 0)


if __name__ == "__main__":
    time.time = _shifted  # before anything of the product takes a reference to it
    sys.argv = ["stream-guard", *sys.argv[2:]]
    from stream_guard.cli.process import main

    main()
