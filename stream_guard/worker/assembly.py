"""What a worker is made of, and how its parts stand together: which topic is passed on, and which is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.reader import DeadLetterSink
from stream_guard.engine import Engine
from stream_guard.errors import SettingsError
from stream_guard.observability.counts import Counts
from stream_guard.policy.spec import Policy
from stream_guard.ports import Decoder, HoldingDecoder, Sink
from stream_guard.settings import Settings
from stream_guard.worker.batches import BatchProcessor, Make, PartitionFold, Rows
from stream_guard.worker.cross_session.receiver import ReceivingPartition
from stream_guard.worker.cross_session.sender import CrossSessionSender
from stream_guard.worker.delivery import Delivery
from stream_guard.worker.health import Health
from stream_guard.worker.kafka.outbox import Outbox
from stream_guard.worker.partition import Partition
from stream_guard.worker.rekeying import RekeyedPartition, Rekeyer, StatelessDecoder
from stream_guard.worker.rows import KEY_STATES
from stream_guard.worker.stages import Stage, Stages
from stream_guard.worker.store import PartitionStore


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a worker is made of, beside Kafka itself."""

    engine: Engine
    decoder: Decoder
    sinks: Mapping[str, Sink]
    dead_letters: DeadLetters
    settings: Settings
    health: Health
    observe: Callable[[float, int], None]  # told how many seconds each batch took, and how many records it had
    beat: Callable[[], None] = lambda: None  # called as often as the worker looks after itself
    reload: Callable[[], Policy | None] = lambda: None  # asked now and then for a policy to go on with
    adopted: Callable[[Policy], None] = lambda _: None  # told before such a policy judges


def refuse_waiting(engine: Engine, settings: Settings, decoder: Decoder) -> None:
    """Raise SettingsError for rules that look across sessions whose events wait before they are judged.

    What is sent to such rules is known by where it came from, and an event that waits comes from no one place.
    """
    waits = engine.policy.max_out_of_orderness > 0 or (
        isinstance(decoder, HoldingDecoder) and not settings.worker.rekey
    )
    if engine.cross_session and waits:
        rules = [bound.spec for group in engine.cross_session for bound in group.index.bounds]
        named = ", ".join(f"{rule.id} (key: {', '.join(rule.key)})" for rule in rules)
        raise SettingsError(
            f"these rules look across sessions: {named}; a worker judges them only where no event has to wait: "
            "without max_out_of_orderness, and in a format that names the session in every record; "
            "`stream-guard run kafka://...` has no such limit"
        )


def refuse_change(old: Engine, settings: Settings, decoder: Decoder, policy: Policy) -> None:
    """Raise SettingsError for a policy that workers cannot change to while they run."""
    new = Engine(policy, Counts(), mode="stream")
    refuse_waiting(new, settings, decoder)
    if new.cross_session and not old.cross_session:
        raise SettingsError(
            "the new one brings the first rules that look across sessions, and they need a topic; stop all workers of "
            "the group and start them with it"
        )


def build_stages(parts: WorkerParts, rows: Rows, producer: Any, topics: Sequence[str], partitions: int) -> Stages:
    """Return what becomes of each topic: those that are given, and those that workers pass records on through."""
    settings, group = parts.settings, parts.settings.worker.group
    refuse_waiting(parts.engine, settings, parts.decoder)
    delivery = Delivery(parts.sinks, parts.dead_letters, parts.engine.counts)
    if settings.worker.rekey:
        decoder: Decoder = StatelessDecoder(parts.decoder)
        rekeyer: Stage = Rekeyer(
            decoder,
            delivery,
            Outbox(producer, f"{group}-rekeyed"),
            partitions=partitions,
            counts=parts.engine.counts,
        )
        stages = dict.fromkeys(topics, rekeyer)
        judged, make = [f"{group}-rekeyed"], partition_maker(parts, decoder, RekeyedPartition)
    else:
        stages, judged, make = {}, list(topics), partition_maker(parts, parts.decoder, Partition)
    options: dict[str, Any] = {
        "engine": parts.engine,
        "delivery": delivery,
        "rows": rows,
        "settings": settings,
        "observe": parts.observe,
    }
    if not parts.engine.cross_session:
        return Stages(stages | dict.fromkeys(judged, BatchProcessor(make=make, **options)))
    outbox = Outbox(producer, f"{group}-spanning")
    judge = CrossSessionSender(outbox, width=partitions, make=make, **options)
    receiving = BatchProcessor(make=key_state_maker(parts, partitions), **options)
    return Stages({**stages, **dict.fromkeys(judged, judge), outbox.topic: receiving})


def partition_maker(parts: WorkerParts, decoder: Decoder, kind: type[Partition]) -> Make:
    """Return what makes partitions of sessions."""
    limits = parts.settings.sessions

    def make(number: int, rows: Mapping[bytes, bytes], engine: Engine, dead_letters: DeadLetterSink) -> PartitionFold:
        return kind(PartitionStore(number, rows), engine, decoder, dead_letters, limits, now=time.time)

    return make


def key_state_maker(parts: WorkerParts, senders: int) -> Make:
    """Return what makes partitions of key states that span sessions."""
    limits = parts.settings.sessions

    def make(number: int, rows: Mapping[bytes, bytes], engine: Engine, dead_letters: DeadLetterSink) -> PartitionFold:
        return ReceivingPartition(
            PartitionStore(number, rows, KEY_STATES), engine, dead_letters, limits, senders=senders
        )

    return make
