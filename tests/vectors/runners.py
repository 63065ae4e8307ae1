"""Which sort of vector is run by what."""

from __future__ import annotations

from typing import Final

from tests.vectors import diff, policy
from tests.vectors.case import Runner

RUNNERS: Final[dict[str, Runner]] = {"diff": diff.run, "policy": policy.run}
