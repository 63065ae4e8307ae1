"""What a worker is made of, and how its parts stand together: which topic is passed on, and which is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stream_guard.dead_letters import DeadLetters
from stream_guard.engine import Engine
from stream_guard.policy.spec import Policy
from stream_guard.ports import Decoder, Sink
from stream_guard.settings import Settings
from stream_guard.stream.health import Health
from stream_guard.stream.judge import Judge, Rows
from stream_guard.stream.outbox import Outbox
from stream_guard.stream.partition import Partition
from stream_guard.stream.rekeying import AtOnce, RekeyedPartition, Rekeyer
from stream_guard.stream.stages import Stage, Stages


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker is made of, beside Kafka itself."""

    engine: Engine
    decoder: Decoder
    sinks: Mapping[str, Sink]
    dead_letters: DeadLetters
    settings: Settings
    health: Health
    observe: Callable[[float], None]  # told how many seconds each batch took
    beat: Callable[[], None] = lambda: None  # called as often as the worker looks after itself
    reload: Callable[[], Policy | None] = lambda: None  # asked now and then for a policy to go on with
    adopted: Callable[[Policy], None] = lambda _: None  # told before such a policy judges


def build_stages(parts: Parts, rows: Rows, producer: Any, topics: Sequence[str], partitions: int) -> Stages:
    """Return what becomes of each topic: those that are given, and those that workers pass records on through."""
    settings = parts.settings
    if not settings.worker.rekey:
        judge = _judge(parts, rows, parts.decoder, Partition)
        return Stages(dict.fromkeys(topics, judge))
    decoder = AtOnce(parts.decoder)
    rekeyer: Stage = Rekeyer(
        decoder,
        parts.dead_letters,
        Outbox(producer, f"{settings.worker.group}-rekeyed"),
        partitions=partitions,
        limit=settings.decode.max_record_bytes,
        counts=parts.engine.counts,
    )
    judge = _judge(parts, rows, decoder, RekeyedPartition)
    return Stages({**dict.fromkeys(topics, rekeyer), f"{settings.worker.group}-rekeyed": judge})


def _judge(parts: Parts, rows: Rows, decoder: Decoder, make: type[Partition]) -> Judge:
    return Judge(
        engine=parts.engine,
        decoder=decoder,
        sinks=parts.sinks,
        dead_letters=parts.dead_letters,
        rows=rows,
        settings=parts.settings,
        observe=parts.observe,
        make=make,
    )
