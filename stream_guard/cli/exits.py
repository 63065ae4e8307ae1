"""Exit codes, the same for every command."""

from __future__ import annotations

from typing import Final

CLEAN: Final = 0
FINDINGS: Final = 1  # at or over the gate
USAGE: Final = 2  # bad usage, policy or settings
INFRASTRUCTURE: Final = 3  # something outside would not work: a file, a disk, a sink
INCONCLUSIVE: Final = 4  # not everything could be judged
