"""Which partitions are idle in which stage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from stream_guard.worker.stages import TopicPartition, TopicRouter, TopicStage


class Stage:
    """Keeps the partitions that it was told are idle."""

    idle: tuple[int, ...] = ()

    async def tick(self, partitions: Sequence[int], read_until: Mapping[int, float]) -> None:
        del read_until
        self.idle = tuple(partitions)


@pytest.mark.parametrize(
    ("unread", "idle"),
    [
        ((), [(0, 1), (0, 1), (0, 1)]),
        ((("events", 0),), [(1,), (1,), (1,)]),
        ((("rekeyed", 1),), [(0, 1), (0,), (0,)]),
        ((("crossing", 0), ("crossing", 1)), [(0, 1), (0, 1), ()]),
        ((("more", 0), ("crossing", 1)), [(1,), (1,), ()]),
    ],
    ids=["nothing", "first stage", "second stage", "clocks for the last stage", "another topic of the first"],
)
def test_a_stage_is_kept_busy_by_what_it_reads_and_not_by_what_it_sends(
    unread: Sequence[tuple[str, int]], idle: list[tuple[int, ...]]
) -> None:
    stages: list[Any] = [Stage(), Stage(), Stage()]
    topics = {"events": stages[0], "more": stages[0], "rekeyed": stages[1], "crossing": stages[2]}
    router = TopicRouter(cast("Mapping[str, TopicStage]", topics))
    asyncio.run(router.tick({0, 1}, [TopicPartition(*one) for one in unread], {}))
    assert [stage.idle for stage in stages] == idle
