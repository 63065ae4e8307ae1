"""Tenants in the names of sessions: two tenants' events under one session id are two sessions, in every mode."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.alerting.delivery import Delivery
from stream_guard.asking.desk import JudgedAlerts
from stream_guard.commit import Commit
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.judge.counts import Counts
from stream_guard.judge.identity import tenant_session
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding
from stream_guard.kafka.writer import Outgoing
from stream_guard.pipeline import Pipeline
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.running.batch import evaluate
from stream_guard.settings import SessionLimits, Settings
from stream_guard.worker.partition import SessionPartition
from stream_guard.worker.rekeying import Rekeyer, StatelessDecoder
from stream_guard.worker.rows import PartitionStore
from stream_guard.worker.stages import TopicPartition
from tests.worker.logs import MemoryLog, recover

POLICY = load_policy(
    '{"rules": [{"id": "max", "kind": "max_calls", "params": {"tool": "mail", "n": 3}}]}', build_registry()
)
BY_TENANT = Settings(sessions=SessionLimits(tenant_label="tenant"))

names = st.text(st.sampled_from("a/%2F5"), max_size=6)


@given(st.tuples(names, names.filter(bool)), st.tuples(names, names.filter(bool)))
def test_no_two_pairs_of_tenant_and_id_have_the_same_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (tenant_session(*one) == tenant_session(*other)) == (one == other)


def lines() -> list[bytes]:
    """Four mails of one tenant, two of another and two of nobody, all under one session id."""
    told = []
    for number, tenant in enumerate(["acme", "acme", "zeta", "", "acme", "zeta", "", "acme"]):
        call = {
            "kind": "tool_call",
            "session_id": "s",
            "event_id": f"e{number}",
            "time": 1000.0 + number,
            "tool": "mail",
        }
        told.append(json.dumps(call | {"labels": {"tenant": tenant} if tenant else {}}).encode())
    return told


def by_run(settings: Settings) -> list[Finding]:
    found, counts = list[Finding](), Counts()
    table = Judge(POLICY, settings.sessions, mode="stream", counts=counts)
    letters = DeadLetters(None, counts, format_name="native")
    Pipeline(Assembly(settings).make_decoder("native"), table, letters).run([Record(line) for line in lines()], found)
    return found


def by_batch(settings: Settings, folder: Path) -> list[Finding]:
    (folder / "events.jsonl").write_bytes(b"\n".join(lines()))
    return evaluate(Assembly(settings).read_events([str(folder / "events.jsonl")], "native"), POLICY)


def by_worker(settings: Settings) -> tuple[list[Finding], int]:
    found, counts = list[Finding](), Counts()
    judge = Judge(POLICY, mode="stream", counts=counts)
    letters = DeadLetters(None, counts, format_name="native")
    decoder = Assembly(settings).make_decoder("native")
    partition = SessionPartition(PartitionStore(0, {}), judge, decoder, letters, settings.sessions, now=lambda: 2e3)
    partition.fold("events", [Record(line, "events/0", at, key=b"s") for at, line in enumerate(lines())], found)
    return found, partition.foreign_keys


@pytest.mark.parametrize(
    ("settings", "expected"),
    [(BY_TENANT, [("acme/s", "e7")]), (Settings(), [("s", "e4"), ("s", "e5"), ("s", "e6"), ("s", "e7")])],
)
def test_two_tenants_under_one_id_are_two_sessions_in_every_mode(
    settings: Settings, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    worker, foreign = by_worker(settings)
    for found in (by_run(settings), by_batch(settings, tmp_path), worker):
        assert [(finding.session_id, finding.event_id) for finding in found][-len(expected) :] == expected
        assert (len(found) == 1) == (settings is BY_TENANT)
    assert foreign == 0


class KeyOutbox:
    """Keeps what is sent."""

    topic = "rekeyed"

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []

    async def send(self, records: dict[int, list[Outgoing]]) -> None:
        self.keys += [record.key for listed in records.values() for record in listed]


def test_rekeyed_records_are_under_the_names_with_tenants() -> None:
    counts, outbox = Counts(), KeyOutbox()
    alerts = JudgedAlerts(Delivery({}, counts))
    commit = Commit(alerts.keep, DeadLetters(None, counts, format_name="native"))
    decoder = StatelessDecoder(Assembly(BY_TENANT).make_decoder("native"))
    table, _ = recover(MemoryLog())
    stage = Rekeyer(decoder, commit, outbox, table, partitions=1, counts=counts)  # type: ignore[arg-type]  # doubles
    records = [Record(line, "events/0", at) for at, line in enumerate(lines())]
    asyncio.run(stage.process({TopicPartition("events", 0): records}, lambda _: None))
    assert outbox.keys[:4] == [b"acme/s", b"acme/s", b"zeta/s", b"s"]


@pytest.mark.parametrize("session_id", ["", "\0s"])
def test_a_tenant_makes_no_session_of_an_id_that_none_can_have(session_id: str) -> None:
    counts, found = Counts(), list[Finding]()
    pipeline = Pipeline(
        Assembly(BY_TENANT).make_decoder("native"),
        Judge(POLICY, counts=counts),
        DeadLetters(None, counts, format_name="native"),
    )
    event = {"kind": "user_message", "session_id": session_id, "text": "x", "labels": {"tenant": "acme"}}
    pipeline.run([Record(json.dumps(event).encode())], found)
    assert counts.dead_letters["decode"] == 1
    assert counts.sessions == 0


def test_a_decoder_waits_with_tenants_as_it_does_without() -> None:
    for form in ("native", "otlp"):
        plain, placed = (Assembly(settings).make_decoder(form) for settings in (Settings(), BY_TENANT))
        assert placed.waits == plain.waits


def agent_limit(settings: Settings, told: list[dict[str, object]]) -> list[str]:
    """Return the events at which an agent has made more than three calls, over all sessions."""
    text = '{"rules": [{"id": "max", "kind": "max_calls", "key": ["agent"], "params": {"tool": "mail", "n": 3}}]}'
    assembly = Assembly(settings)
    found, counts = list[Finding](), Counts()
    policy = assembly.fit(load_policy(text, assembly.registry), "native")
    table = Judge(policy, settings.sessions, mode="stream", counts=counts)
    letters = DeadLetters(None, counts, format_name="native")
    records = [Record(json.dumps(one).encode()) for one in told]
    Pipeline(assembly.make_decoder("native"), table, letters).run(records, found)
    return [finding.event_id for finding in found]


def mail(number: int, session: str, **labels: str) -> dict[str, object]:
    header = {"kind": "tool_call", "session_id": session, "event_id": f"e{number}", "time": 1000.0 + number}
    return {**header, "tool": "mail", "agent": "bot", "labels": labels}


def test_what_one_tenant_does_counts_for_no_other_across_sessions() -> None:
    by_customer = Settings(sessions=SessionLimits(tenant_label="customer"))
    told = [mail(number, f"s{number}", customer=("acme", "zeta")[number % 2]) for number in range(7)]
    assert agent_limit(Settings(), told) == ["e3", "e4", "e5", "e6"]
    assert agent_limit(by_customer, told) == ["e6"]
    nobody = [mail(number, f"s{number}") for number in range(4)]
    assert agent_limit(by_customer, nobody) == ["e3"]


def test_an_event_without_a_tenant_cannot_claim_one() -> None:
    decoder = Assembly(Settings(sessions=SessionLimits(tenant_label="customer"))).make_decoder("native")
    [claimed] = decoder.decode(Record(json.dumps(mail(1, "s", tenant="acme")).encode()))
    [honest] = decoder.decode(Record(json.dumps(mail(1, "s", tenant="zeta", customer="acme")).encode()))
    assert (claimed.session_id, claimed.labels) == ("s", {})
    assert (honest.session_id, honest.labels) == ("acme/s", {"customer": "acme", "tenant": "acme"})


@given(st.lists(names.filter(bool), min_size=2, max_size=2), st.lists(names.filter(bool), min_size=2, max_size=2))
def test_no_two_values_of_a_key_share_a_state(one: list[str], other: list[str]) -> None:
    from stream_guard.judge.index import CrossSessionRules
    from stream_guard.judge.model import ToolCall

    group = CrossSessionRules(("agent", "labels.x"), [], by_tenant=True)
    first, second = (ToolCall(session_id="s", tool="t", agent=pair[0], labels={"x": pair[1]}) for pair in (one, other))
    assert (group.key_id(first) == group.key_id(second)) == (one == other)
