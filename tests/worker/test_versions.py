"""Whatever dies whenever, each event is judged by one rollout, and that is the one that the partition's row names."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from stream_guard.alerting.delivery import Delivery
from stream_guard.asking.desk import JudgedAlerts
from stream_guard.cli.worker import PolicyAdoption
from stream_guard.commit import Commit
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.errors import SettingsError, StoreError
from stream_guard.judge.counts import Counts
from stream_guard.judge.fold import Engine
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Alert
from stream_guard.judge.spec import Policy
from stream_guard.observability.metrics import Metrics
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record, Sink
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import Settings
from stream_guard.worker.assembly import Health, WorkerParts, prepare_rollouts, session_partitions
from stream_guard.worker.partition import SessionPartition
from stream_guard.worker.rollouts import (
    PartitionPolicies,
    PolicyRollout,
    PublishedPolicy,
    RolloutLog,
    VersionedRouter,
    encode_rollout,
    refuse_for_rollouts,
    rollout_key,
)
from stream_guard.worker.rows import KnownTopic, RowChange, decode_policy, encode_row, policy_key, topics_key
from stream_guard.worker.savepoint import SavedTopic, SavepointHeader, TargetTopic, move_states
from stream_guard.worker.stages import BatchProcessor, TopicPartition

SOURCE = TopicPartition("events", 0)
REGISTRY = build_registry()


class DeathError(Exception):
    """The worker was killed while it wrote."""


class Broker:
    """What is left when workers die: events, rollouts, rows and alerts."""

    def __init__(self, dice: Random, *, deaths: float = 0.0) -> None:
        self.dice = dice
        self.deaths = deaths  # how likely a write of rows is the last
        self.records: list[Record] = []
        self.control: list[bytes] = []
        self.rows: dict[bytes, bytes] = {}
        self.alerts: list[Alert] = []

    def recovered(self, partition: int) -> Mapping[bytes, bytes]:
        return self.rows

    async def write(self, changes: Mapping[int, Sequence[RowChange]]) -> None:
        for key, value in (change for listed in changes.values() for change in listed):
            if self.dice.random() < self.deaths:
                raise DeathError
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def call(self, tool: str = "wipe", session: str = "", **labels: str) -> None:
        number = len(self.records)
        event: dict[str, Any] = {"kind": "tool_call", "session_id": session or f"s{number}", "event_id": f"e{number}"}
        event |= {"tool": tool, "time": time.time(), "args": {"n": number}, "labels": labels}
        self.records.append(Record(json.dumps(event).encode(), "events/0", number))

    def publish(self, rule: str, **held: str) -> None:
        kept = {tenant: published(name) for tenant, name in held.items()}
        self.control.append(encode_rollout(PolicyRollout(policy=published(rule), held=kept)))


class Kept(Sink):
    """A sink that is another process: what it has stays."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Kept:
        raise NotImplementedError

    def send(self, alerts: Sequence[Alert]) -> None:
        self._broker.alerts += alerts


def policy_text(rule: str) -> str:
    """A policy whose one rule finds every call, so that an alert tells which policy judged its event."""
    return f"rules: [{{id: {rule}, kind: no_call, params: {{tool: wipe}}}}]"


def load(text: str) -> Policy:
    return load_policy(text, REGISTRY)


def published(rule: str) -> PublishedPolicy:
    return PublishedPolicy(load(policy_text(rule)).version, policy_text(rule))


class Worker:
    """A worker of one partition, from what the broker has."""

    def __init__(self, broker: Broker, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self.broker, self.counts = broker, Counts()
        judge = Judge(load(policy_text("file")), mode="stream", counts=self.counts)
        letters = DeadLetters(None, self.counts, format_name="native")
        delivery = Delivery({"kept": Kept(broker)}, self.counts)
        assembly = Assembly(settings, REGISTRY)
        parts = WorkerParts(
            judge=judge,
            decoder=assembly.make_decoder("native"),
            delivery=delivery,
            dead_letters=letters,
            settings=settings,
            health=Health(self.counts, patience=60.0),
            observe=lambda _seconds, _records: None,
        )
        fit = partial(assembly.fit, form="native")
        self.log = RolloutLog(judge, prepare_rollouts(load, fit, settings), self.counts)
        policies = PartitionPolicies(self.log, broker)
        alerts = JudgedAlerts(delivery)
        judging = BatchProcessor(
            judge=judge,
            alerts=alerts,
            commit=Commit(alerts.keep, letters),
            rows=broker,
            settings=settings,
            observe=parts.observe,
            make=session_partitions(parts, parts.decoder, SessionPartition, policies),
        )
        self.router = VersionedRouter({"events": judging}, judging, policies, self._find_ends, group="g")
        self.hear()

    async def _find_ends(self, sources: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(sources, len(self.broker.records))

    def hear(self) -> None:
        """Read the control topic to its end."""
        for number, value in enumerate(self.broker.control):
            self.log.add(number, rollout_key(str(number)), value)
        self.log.choose()

    async def judge(self, most: int) -> bool:
        """Judge the next records; False when there are none."""
        start = self.router.next_offset(SOURCE) or 0
        batch = self.broker.records[start : start + most]
        if batch:
            await self.router.process({SOURCE: batch}, lambda _: None)
        return bool(batch)


def rules_by_event(broker: Broker) -> list[set[str]]:
    """By offset: the rules whose alerts about the event are out."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for alert in broker.alerts:
        found[alert.session_id].add(alert.rule_id)
    return [found[f"s{number}"] for number in range(len(broker.records))]


def check_order(broker: Broker, published: Sequence[str]) -> None:
    """Every event was judged by one policy, they follow each other, and the last begins where the row says."""
    judged = rules_by_event(broker)
    assert all(len(rules) == 1 for rules in judged), judged
    said = [next(iter(rules)) for rules in judged]
    places = [["file", *published].index(rule) for rule in said]
    assert places == sorted(places)
    row = decode_policy(broker.rows[policy_key(0)])
    last = published[row.rollout]
    assert [offset for offset, rule in enumerate(said) if rule == last][:1] in ([], [row.offsets["events"]])


@pytest.mark.parametrize("seed", range(15))
def test_deaths_at_any_write_leave_every_event_to_one_rollout(seed: int) -> None:
    dice = Random(seed)
    broker, names = Broker(dice, deaths=0.04), list[str]()

    async def live() -> None:
        worker = Worker(broker)
        for _ in range(60):
            for _ in range(dice.randrange(6)):
                broker.call()
            if dice.random() < 0.1:
                names.append(f"r{len(names)}")
                broker.publish(names[-1])
            if dice.random() < 0.5:
                worker.hear()
            try:
                await worker.judge(dice.randrange(1, 8))
                if dice.random() < 0.1:  # partitions are handed out again
                    await worker.router.flush()
                    worker.router.drop_partitions()
            except DeathError:
                worker = Worker(broker)
        broker.deaths = 0.0
        worker = Worker(broker)
        while await worker.judge(7):
            pass
        await worker.router.tick({0}, [], {})
        broker.call()
        await worker.judge(7)
        await worker.router.flush()

    asyncio.run(live())
    if names:
        check_order(broker, names)
        assert decode_policy(broker.rows[policy_key(0)]).rollout == len(names) - 1


def test_a_tenant_that_is_held_back_keeps_its_counts_when_it_is_let_go() -> None:
    """The rows stay: a limit that was half used is half used under the next policy too, if it has the same rule."""
    limit = {"id": "limit", "kind": "max_calls", "params": {"tool": "mail", "n": 2}}
    texts = [
        json.dumps({"rules": [limit, {"id": name, "kind": "no_call", "params": {"tool": "wipe"}}]})
        for name in ("old", "new")
    ]
    old, new = (PublishedPolicy(load(text).version, text) for text in texts)
    broker = Broker(Random(0))
    settings = Settings.model_validate({"sessions": {"tenant_label": "tenant"}})

    async def live() -> None:
        broker.control.append(encode_rollout(PolicyRollout(policy=new, held={"acme": old})))
        worker = Worker(broker, settings)
        for tenant in ("acme", "other", "acme", "other"):
            broker.call("mail", "s", tenant=tenant)
        await worker.judge(10)
        await worker.router.flush()
        broker.control.append(encode_rollout(PolicyRollout(policy=new)))
        worker.hear()
        for tenant in ("acme", "other"):
            broker.call("mail", "s", tenant=tenant)
        await worker.judge(10)
        await worker.router.flush()

    asyncio.run(live())
    found = [(alert.session_id, alert.rule_id, alert.policy_version) for alert in broker.alerts]
    assert found == [("acme/s", "limit", new.version), ("other/s", "limit", new.version)]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (b"\xff", "no rollout"),
        (b"[]", "no rollout"),
        (b'{"policy": {"version": "x", "text": "rules: [{kind: no_such}]"}}', "no_such"),
        (b'{"policy": {"version": "x", "text": "rules: []"}}', "install the same version"),
        (encode_rollout(PolicyRollout(policy=published("a"), held={"acme": published("b")})), "sessions.tenant_label"),
        (
            encode_rollout(
                PolicyRollout(
                    policy=PublishedPolicy(
                        load("rules: [{id: c, kind: max_calls, key: [agent], params: {tool: t, n: 1}}]").version,
                        "rules: [{id: c, kind: max_calls, key: [agent], params: {tool: t, n: 1}}]",
                    )
                )
            ),
            "look across sessions",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_and_counted(record: bytes, said: str, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(Random(0))
    broker.publish("good")
    broker.control.append(record)
    worker = Worker(broker)
    assert said in caplog.text
    assert worker.log.latest.version == published("good").version
    assert worker.counts.policy_reloads == {"ok": 1, "failed": 1}


def moved(rows: Mapping[bytes, bytes], read: int) -> dict[bytes, bytes]:
    """The rows of another group that reads the topic on, after a savepoint."""
    topic = SavedTopic("events", "1d", [read], [read], [])
    header = SavepointHeader(1, 1, "g", 1, [topic], [0], 0.0)
    target = TargetTopic("1d", [1000])
    return move_states(header, {0: rows}, {"events": target})[0]


@pytest.mark.parametrize("renumbered", [False, True], ids=["the same topic of policies", "another one"])
def test_a_group_that_takes_over_a_savepoint_goes_on_with_the_rollout_and_the_states_of_its_rules(
    renumbered: bool,
) -> None:
    """Not with the file's policy, which would forget the states of rules that it does not have."""
    text = json.dumps({"rules": [{"id": "limit", "kind": "max_calls", "params": {"tool": "mail", "n": 2}}]})
    broker = Broker(Random(0))
    broker.publish("first")
    broker.control.append(encode_rollout(PolicyRollout(policy=PublishedPolicy(load(text).version, text))))

    async def live() -> None:
        worker = Worker(broker)
        for _ in range(2):
            broker.call("mail", "s")
        await worker.judge(10)
        await worker.router.flush()
        broker.rows[topics_key(0)] = encode_row({"events": KnownTopic(bytes.fromhex("1d"))})
        broker.rows = moved(broker.rows, 2)
        if renumbered:
            broker.control.insert(0, broker.control.pop())
        broker.publish("last")
        for tool in ("mail", "wipe", "mail"):
            broker.call(tool, "s")
        worker = Worker(broker)
        assert worker.router.next_offset(SOURCE) == 2
        await worker.judge(1)  # not all that was there
        await worker.judge(2)
        await worker.router.tick({0}, [], {})
        broker.call("wipe", "s")
        await worker.judge(1)
        await worker.router.flush()
        assert worker.counts.state_resets == 1, "when the last rollout came into force, which has no limit"

    asyncio.run(live())
    found = [(alert.rule_id, alert.event_id) for alert in broker.alerts]
    assert found == [("limit", "e2"), ("limit", "e4"), ("last", "e5")]


def test_a_savepoint_of_a_rollout_that_the_topic_of_policies_does_not_have_is_judged_by_no_other() -> None:
    broker = Broker(Random(0))
    broker.publish("first")
    broker.call()

    async def live() -> None:
        worker = Worker(broker)
        await worker.judge(1)
        await worker.router.flush()
        broker.rows = moved(broker.rows, 1)
        broker.control.clear()
        broker.publish("another")  # under the number that the first one had
        with pytest.raises(StoreError, match=r"judged by rollout 0 \(policy .*\), which the topic of policies"):
            Worker(broker).router.next_offset(SOURCE)

    asyncio.run(live())


def engines() -> set[int]:
    """The engines that are kept by anybody."""
    gc.collect()
    return {id(one) for one in gc.get_objects() if isinstance(one, Engine)}


def test_a_worker_that_starts_compiles_the_last_rollout_and_the_one_that_its_partition_names() -> None:
    broker, made = Broker(Random(0)), engines()

    async def live() -> None:
        broker.publish("r0")
        broker.publish("r1")
        broker.call()
        worker = Worker(broker)
        await worker.judge(1)
        await worker.router.flush()
        for number in range(2, 30):
            broker.publish(f"r{number}")
        broker.control.append(b"no rollout")
        for _ in range(4):
            broker.call()
        before = engines()
        again = Worker(broker)
        await again.judge(2)  # not all that was there: still by the rollout of its row
        assert again.counts.policy_reloads == {"ok": 1, "failed": 1}
        assert len(engines() - before) == 3, "of the file, of the row and of the last rollout"
        await again.judge(2)
        broker.call()
        await again.judge(2)
        await again.router.flush()
        assert len(engines() - before) == 2, "nothing is judged by the rollout of the row any more"
        assert [one.number for one in again.log.listed()] == list(range(29, -1, -1))

    asyncio.run(live())
    assert rules_by_event(broker) == [{"r1"}] * 5 + [{"r29"}]
    assert len(engines() - made) == 0


def test_a_worker_that_lives_through_many_rollouts_keeps_two_and_no_count_is_lost() -> None:
    broker, made = Broker(Random(0)), engines()

    async def live() -> None:
        worker = Worker(broker)
        metrics = Metrics(worker.counts, CollectorRegistry())
        PolicyAdoption(metrics, Assembly(Settings(), REGISTRY), (), worker.log)
        metrics.use_rules(load(policy_text("file")).rules)
        most = 0
        for number in range(25):
            broker.call()
            await worker.judge(1)
            broker.publish(f"r{number % 20}")
            worker.hear()
            if number % 3 == 0:  # several may come between two batches
                broker.publish(f"r{number % 20}")
                worker.hear()
            await worker.router.tick({0}, [], {})
            most = max(most, len(engines() - made))
        broker.call()
        await worker.judge(1)
        await worker.router.flush()
        assert most == 2
        shown = {metric.name: metric for metric in metrics.collect()}
        counted = {sample.labels["rule"]: sample.value for sample in shown["stream_guard_findings"].samples}
        assert counted == {"file": 1.0, **{f"r{number}": 2.0 if number < 5 else 1.0 for number in range(20)}}
        assert [sample.value for sample in shown["stream_guard_rules_loaded"].samples] == [1.0]
        worker.log.collect_counts(ended=True)
        assert worker.counts.total("findings") == len(broker.records) == 26

    asyncio.run(live())
    assert len(rules_by_event(broker)) == 26


def test_a_partition_whose_rollout_is_gone_is_not_judged_by_another() -> None:
    broker = Broker(Random(0))
    broker.publish("good")
    broker.call()

    async def live() -> None:
        worker = Worker(broker)
        await worker.judge(1)
        await worker.router.flush()
        broker.control.clear()
        with pytest.raises(StoreError, match=r"judged by rollout 0 .*, which the topic of policies does not have"):
            Worker(broker).router.next_offset(SOURCE)

    asyncio.run(live())


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{id: c, kind: max_calls, key: [agent], params: {tool: t, n: 1}}", "look across sessions"),
        ("{id: j, kind: must_satisfy_judge, params: {rule: Be brief., tool: t}}", r"ask a judge \(j\)"),
    ],
)
def test_rules_that_no_topic_may_bring_are_refused_in_the_file_too(rule: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        refuse_for_rollouts(load(f"rules: [{rule}]"))
