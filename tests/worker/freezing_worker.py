"""``stream-guard worker``, but it stops like a frozen machine between the recovery of its partitions and their claim.

A file that is named by the environment variable FREEZE_ONCE is removed when it stops, so that it does so once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from stream_guard.cli.process import main
from stream_guard.worker.changelog import ChangelogTable

_claim = ChangelogTable.claim


async def _freeze_and_claim(self: ChangelogTable, ends: Mapping[int, int]) -> None:
    if ends:
        _freeze()
    await _claim(self, ends)


def _freeze() -> None:
    once = Path(os.environ["FREEZE_ONCE"])
    if once.exists():
        once.unlink()
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    ChangelogTable.claim = _freeze_and_claim  # type: ignore[method-assign]  # the moment that no signal from outside hits
    main()
