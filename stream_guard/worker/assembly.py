"""The assembly of a worker: its parts, and the stage of each topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from stream_guard.alerting.delivery import Delivery
from stream_guard.asking.desk import JudgedAlerts, JudgedBatch
from stream_guard.commit import Commit
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.reader import DeadLetterSink
from stream_guard.decoding.wrapping import Watch, watched
from stream_guard.errors import SettingsError
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.spec import Policy
from stream_guard.observability.status import StallDetector
from stream_guard.observability.steady_clock import receiver_time, steady_time
from stream_guard.ports import Decoder
from stream_guard.redaction import redact_text
from stream_guard.settings import Settings
from stream_guard.worker.cross_session import CLOCKS, CrossSessionSender, ReceivingPartition
from stream_guard.worker.partition import SessionPartition
from stream_guard.worker.rekeying import RekeyedPartition, Rekeyer, StatelessDecoder
from stream_guard.worker.rollouts import (
    FindEnds,
    PartitionPolicies,
    PolicyRollout,
    PreparedRollout,
    PublishedPolicy,
    RolloutLog,
    VersionedRouter,
    open_published,
)
from stream_guard.worker.rows import KEY_STATES, SESSIONS, PartitionStore, most_bytes
from stream_guard.worker.stages import BatchProcessor, Outbox, PartitionFactory, StateTable, TopicRouter, TopicStage

_SHOWN: Final = 80  # characters of a session's id in a message

_logger = logging.getLogger(__name__)


class Health:
    """Whether the worker is ready for work, and whether it is stuck: read by the thread that answers /readyz."""

    def __init__(self, counts: Counts, *, patience: float) -> None:
        self._counts = counts
        self._stall = StallDetector(patience=patience)
        self._reasons: Sequence[str] = ("the worker has not started",)

    def update(self, reasons: Sequence[str], lag: int, handled: int) -> None:
        """Set the reasons why the worker is not ready, the lag in records, and the number of handled records."""
        self._reasons = reasons
        self._counts.lag = lag
        self._stall.feed(handled, lag)

    def unready(self) -> Sequence[str]:
        """Return the reasons why the worker is not ready; none when it is."""
        return self._reasons

    def stuck(self) -> str:
        """Return the reason to restart the worker, or an empty text."""
        return self._stall.reason()


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The parts of a worker, without Kafka."""

    judge: Judge  # which lends its rules to those of the partitions
    decoder: Decoder
    delivery: Delivery
    dead_letters: DeadLetters
    settings: Settings
    health: Health
    observe: Callable[[float, int], None]  # called for each durable batch, with its seconds and its records
    beat: Callable[[], None] = lambda: None  # called at every check of the run loop
    reload: Callable[[], Policy | None] = lambda: None  # called at every check; returns a changed policy
    adopted: Callable[[Policy], None] = lambda _: None  # called before a changed policy is used
    watch: Watch | None = None  # is shown every event before it is judged
    rollouts: RolloutLog | None = None  # of the control topic; without one, the file's policy is in force


def refuse_waiting(judge: Judge, settings: Settings, decoder: Decoder) -> None:
    """Raise SettingsError for cross-session rules where events wait before they are evaluated.

    A message to such a rule is identified by the record of its event, and an event that waits has no single record.
    """
    waits = judge.policy.max_out_of_orderness > 0 or (decoder.waits and not settings.worker.rekey)
    if judge.across and waits:
        named = ", ".join(f"{rule.id} (key: {', '.join(rule.key)})" for rule in judge.across)
        raise SettingsError(
            f"these rules look across sessions: {named}; a worker judges them only where no event has to wait: "
            "without max_out_of_orderness, and in a format that names the session in every record; "
            "`stream-guard run kafka://...` has no such limit"
        )


def prepare_rollouts(
    load: Callable[[str], Policy], fit: Callable[[Policy], Policy], settings: Settings
) -> Callable[[int, PolicyRollout], PreparedRollout]:
    """Return what makes judges of rollouts: ``load`` reads a policy, ``fit`` fits it to the format of the records.

    It raises StreamGuardError for one that cannot be used.
    """

    def make(published: PublishedPolicy) -> Judge:
        policy = open_published(published, load)
        # Counts of its own: those by rule go by the place of the rule in its policy, and several are in force at once.
        return Judge(fit(policy), settings.sessions, mode="stream")

    def prepare(number: int, rollout: PolicyRollout) -> PreparedRollout:
        if rollout.held and not settings.sessions.tenant_label:
            raise SettingsError("it holds tenants back, and sessions.tenant_label does not say which label names them")
        held = {tenant: make(published) for tenant, published in rollout.held.items()}
        return PreparedRollout(number, make(rollout.policy), held)

    return prepare


def refuse_change(old: Judge, settings: Settings, decoder: Decoder, policy: Policy) -> None:
    """Raise SettingsError for a policy that needs a restart of all workers."""
    new = Judge(policy, mode="stream")
    refuse_waiting(new, settings, decoder)
    if new.across and not old.across:
        raise SettingsError(
            "the new one brings the first rules that look across sessions, and they need a topic; stop all workers of "
            "the group and start them with it"
        )


def build_stages(
    parts: WorkerParts,
    rows: StateTable,
    open_outbox: Callable[[str], Outbox],
    topics: Sequence[str],
    partitions: int,
    find_ends: FindEnds | None = None,
) -> TopicRouter:
    """Return the stages of the given topics, and of those through which workers pass records to each other.

    ``find_ends`` is needed where policies come from a control topic.
    """
    settings, group = parts.settings, parts.settings.worker.group
    refuse_waiting(parts.judge, settings, parts.decoder)
    alerts = JudgedAlerts(parts.delivery, parts.judge.answers)
    commit: Commit[JudgedBatch] = Commit(alerts.keep, parts.dead_letters, parts.delivery.abandon)
    stages: dict[str, TopicStage] = {}
    policies = None if parts.rollouts is None else PartitionPolicies(parts.rollouts, rows)
    evaluated, make = list(topics), session_partitions(parts, parts.decoder, SessionPartition, policies)
    if settings.worker.rekey:
        decoder: Decoder = StatelessDecoder(parts.decoder)
        outbox = open_outbox(rekeyed_topic(group))
        rekeyer = Rekeyer(
            decoder,
            commit,
            outbox,
            rows,
            partitions=partitions,
            counts=parts.judge.counts,
            clocks_every=settings.worker.idle_grace / CLOCKS if parts.judge.across else inf,
        )
        stages |= dict.fromkeys(topics, rekeyer)
        evaluated, make = [outbox.topic], session_partitions(parts, decoder, RekeyedPartition, policies)
    options: dict[str, Any] = {
        "judge": parts.judge,
        "alerts": alerts,
        "commit": commit,
        "rows": rows,
        "settings": settings,
        "observe": parts.observe,
    }
    if policies is not None and find_ends is not None:
        judging = BatchProcessor(make=make, **options)
        stages |= dict.fromkeys(evaluated, judging)
        return VersionedRouter(stages, judging, policies, find_ends, group=group)
    if not parts.judge.across:
        return TopicRouter(stages | dict.fromkeys(evaluated, BatchProcessor(make=make, **options)))
    outbox = open_outbox(spanning_topic(group))
    sender = CrossSessionSender(outbox, receivers=partitions, make=make, **options)
    receiver = BatchProcessor(make=key_partitions(parts, partitions), **options)
    return TopicRouter({**stages, **dict.fromkeys(evaluated, sender), outbox.topic: receiver})


def rekeyed_topic(group: str) -> str:
    """Return the name of the topic through which a group passes records under the ids of their sessions."""
    return f"{group}-rekeyed"


def spanning_topic(group: str) -> str:
    """Return the name of the topic through which a group passes events to rules that look across sessions."""
    return f"{group}-spanning"


def session_partitions(
    parts: WorkerParts, decoder: Decoder, kind: type[SessionPartition], policies: PartitionPolicies | None
) -> PartitionFactory[SessionPartition]:
    """Return the factory of partitions of sessions; where policies come from a topic, each has its own."""
    limits = parts.settings.sessions

    def make(number: int, rows: Mapping[bytes, bytes], judge: Judge, dead_letters: DeadLetterSink) -> SessionPartition:
        shown, store, held = watched(decoder, parts.watch), open_store(parts, number, rows), None
        counts = judge.counts
        if policies is not None:
            _, judge, held = policies.of(number)
        return kind(
            store,
            judge,
            shown,
            dead_letters,
            limits,
            now=steady_time,
            receiver=receiver_time,
            counts=counts,
            held=held,
        )

    return make


def open_store(parts: WorkerParts, number: int, rows: Mapping[bytes, bytes], family: int = SESSIONS) -> PartitionStore:
    """Return the store of a partition, with no row that is larger than the changelog takes."""

    def too_large(name: str, size: int) -> None:
        parts.judge.counts.evictions["session_bytes"] += 1
        _logger.error(
            "partition %d: what is kept of %s has %d bytes, more than a row may have, and begins anew after a restart; "
            "see sessions.max_session_bytes and decode.max_record_bytes",
            *(number, redact_text(name, _SHOWN), size),
        )

    return PartitionStore(number, rows, family, most=most_bytes(parts.settings), too_large=too_large)


def key_partitions(parts: WorkerParts, senders: int) -> PartitionFactory[ReceivingPartition]:
    """Return the factory of partitions of key states, for rules that look across sessions."""
    limits = parts.settings.sessions

    def make(
        number: int, rows: Mapping[bytes, bytes], judge: Judge, dead_letters: DeadLetterSink
    ) -> ReceivingPartition:
        return ReceivingPartition(
            open_store(parts, number, rows, KEY_STATES),
            judge,
            dead_letters,
            limits,
            senders=senders,
            grace=parts.settings.worker.idle_grace,
        )

    return make
