"""``stream-guard worker`` on a machine whose clock can be set: a file, named by CLOCK, has the seconds that it is off.

Only the time of day jumps. What measures how long something takes has another clock, on real machines too.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_time = time.time
_file = Path(os.environ["CLOCK"])
_off = [0.0, 0.0]  # the seconds, and when they were read


def _jumping() -> float:
    if time.monotonic() - _off[1] > 0.1:
        _off[:] = float(_file.read_text() or 0), time.monotonic()
    return _time() + _off[0]


if __name__ == "__main__":
    time.time = _jumping  # before anything is imported that remembers the function

    from stream_guard.cli.process import main

    main()
