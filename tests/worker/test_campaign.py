"""The short form of the campaign: everything that may happen to workers, brokers and the network, a few times each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.fixtures import require_broker
from tests.worker.campaign import run
from tests.worker.disturbances import ALL

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(3600)]

DISTURBANCES = 60
SEED = 1


def test_sixty_disturbances_lose_no_alert_and_make_none(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    require_broker()
    tally = run(tmp_path, DISTURBANCES, SEED)
    record_property("campaign", str(tally))
    assert tally.by_kind.keys() == {disturb.__name__ for disturb in ALL}
    assert tally.expected > 1_000
    assert not tally.failed
