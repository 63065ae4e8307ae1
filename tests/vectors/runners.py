"""Which sort of vector is run by what."""

from __future__ import annotations

from typing import Final

from tests.vectors import compliance, contract, diff, guard, policy
from tests.vectors.case import Runner

RUNNERS: Final[dict[str, Runner]] = {
    "compliance": compliance.run,
    "contract": contract.run,
    "diff": diff.run,
    "guard": guard.run,
    "policy": policy.run,
}
