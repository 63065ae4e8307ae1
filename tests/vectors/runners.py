"""Which sort of vector is run by what."""

from __future__ import annotations

from typing import Final

from tests.vectors import attacks, compliance, contract, diff, guard, hooks, incidents, policy, shell, telemetry
from tests.vectors.case import Runner

RUNNERS: Final[dict[str, Runner]] = {
    "attacks": attacks.run,
    "compliance": compliance.run,
    "contract": contract.run,
    "diff": diff.run,
    "guard": guard.run,
    "hooks": hooks.run,
    "incidents": incidents.run,
    "policy": policy.run,
    "shell": shell.run,
    "telemetry": telemetry.run,
}
