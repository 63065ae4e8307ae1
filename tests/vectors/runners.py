"""Which sort of vector is run by what."""

from __future__ import annotations

from typing import Final

from tests.vectors import diff, guard, policy
from tests.vectors.case import Runner

RUNNERS: Final[dict[str, Runner]] = {"diff": diff.run, "guard": guard.run, "policy": policy.run}
