"""Check topics by a sample of their newest records: partitions, keys, format, content and clocks, with advice."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from secrets import token_hex
from statistics import median
from typing import Any, Final, Literal, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from stream_guard.distribution import NAME, describe_build, install_line, other_build
from stream_guard.errors import DecodeError, SettingsError, SinkError
from stream_guard.guard.gate import PROBE
from stream_guard.judge.model import Action, Alert, Event, ToolCall
from stream_guard.kafka.address import Address
from stream_guard.kafka.client import BrokerError, choose_servers, open_consumer, partition_of_key
from stream_guard.kafka.security import describe_login
from stream_guard.ports import Decoder, ProbedSink, Record, Sink
from stream_guard.running.assembly import Assembly
from stream_guard.settings import KafkaSettings, RouteSettings, Settings
from stream_guard.sources.kafka import open_kafka

AHEAD: Final = 5.0  # seconds an event may be in the future before that is a failure
BEHIND: Final = 300.0  # median seconds between an event and its record before that is a warning

# The partition of a key, given the number of partitions.
PartitionOfKey: TypeAlias = Callable[[bytes, int], int]


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what it is about, what it found, and what to do."""

    about: str
    status: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""


@dataclass(slots=True)
class Sample:
    """The newest records of the topics, and the events in them."""

    partitions: Mapping[str, int]  # how many, by topic
    records: list[Record] = field(default_factory=list)
    events: list[tuple[Record, Event]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # why records could not be read

    def add(self, record: Record, decoder: Decoder) -> None:
        """Add a record, with its events or with the reason why it has none."""
        self.records.append(record)
        try:
            self.events += [(record, event) for event in decoder.decode(record)]
        except DecodeError as error:
            self.refused.append(str(error))


def check_partitions(partitions: Mapping[str, int], companions: Mapping[str, int]) -> Check:
    """Check that all topics that are partitioned by session have the same number of partitions."""
    counted = {**partitions, **companions}
    counts = ", ".join(f"{topic} has {count}" for topic, count in counted.items())
    if len(set(counted.values())) == 1:
        return Check("partitions", "ok", counts)
    if len(set(partitions.values())) > 1:
        return Check(
            "partitions",
            "warn",
            counts,
            "a session whose events come on more than one of these topics needs them to have equally many",
        )
    return Check(
        "partitions",
        "fail",
        counts,
        "give the table and re-key topics as many partitions as the events have; a key is elsewhere otherwise",
    )


def check_sample(sample: Sample, partition_of_key: PartitionOfKey, now: float | None = None) -> Iterator[Check]:
    """Yield the checks of format, keys, content and clocks over the sample."""
    if not sample.records:
        yield Check("records", "warn", "there are none", "look again when something was produced")
        return
    yield Check("records", "ok", f"looked at the newest {len(sample.records)}")
    yield _check_format(sample)
    if not sample.events:
        return
    yield _check_spread(sample)
    yield _check_keys(sample, partition_of_key)
    yield _check_content(sample)
    yield _check_clock(sample, time.time() if now is None else now)


def _check_format(sample: Sample) -> Check:
    bad, total = len(sample.refused), len(sample.records)
    if not bad:
        return Check("format", "ok", f"all {total} records can be read")
    reason, _ = Counter(sample.refused).most_common(1)[0]
    return Check(
        "format",
        "fail" if bad * 2 > total else "warn",
        f"{bad} of {total} records cannot be read: {reason}",
        "name the format with --from-format, or mend the producer; such records become dead letters",
    )


def _check_spread(sample: Sample) -> Check:
    places: dict[str, set[str]] = {}
    for record, event in sample.events:
        places.setdefault(event.session_id, set()).add(record.origin)
    torn = {session: origins for session, origins in places.items() if len(origins) > 1}
    if not torn:
        return Check("key spread", "ok", f"each of {len(places)} sessions is on one partition")
    session = min(torn)
    where = ", ".join(sorted(torn[session]))
    return Check(
        "key spread",
        "fail",
        f"{len(torn)} of {len(places)} sessions are on more than one partition: {session!r} on {where}",
        "let the producer use the session's id as the key, or have the worker re-key",
    )


def _check_keys(sample: Sample, partition_of_key: PartitionOfKey) -> Check:
    keyless = sum(record.key is None for record, _ in sample.events)
    foreign = sum(record.key is not None and record.key != event.session_id.encode() for record, event in sample.events)
    total = len(sample.events)
    if keyless:
        return Check(
            "keys",
            "fail",
            f"{keyless} of {total} events have no key",
            "use the session's id as the key, or re-key",
        )
    if foreign:
        return Check(
            "keys",
            "warn",
            f"the key of {foreign} of {total} events is not their session's id",
            "the worker has to re-key; better let the producer use the session's id",
        )
    elsewhere = sum(not _is_at_home(record, sample.partitions, partition_of_key) for record, _ in sample.events)
    if elsewhere:
        return Check(
            "keys",
            "warn",
            f"{elsewhere} of {total} events are not where murmur2 puts their key",
            "set the producer's partitioner to murmur2 (librdkafka: murmur2_random), as all other clients here do",
        )
    return Check("keys", "ok", "keys are session ids, placed by murmur2")


def _is_at_home(record: Record, partitions: Mapping[str, int], partition_of_key: PartitionOfKey) -> bool:
    topic, _, number = record.origin.rpartition("/")
    return partition_of_key(record.key or b"", partitions[topic]) == int(number)


def _check_content(sample: Sample) -> Check:
    hollow = sum(not event.captured for _, event in sample.events)
    if not hollow:
        return Check("content", "ok", "events carry their content")
    return Check(
        "content",
        "warn",
        f"{hollow} of {len(sample.events)} events come without their content",
        "switch content capture on at the source; rules about texts and arguments are unevaluable without",
    )


def _check_clock(sample: Sample, now: float) -> Check:
    timed = [(record, event.time) for record, event in sample.events if event.time is not None]
    total = len(sample.events)
    if len(timed) < total:
        return Check(
            "clock",
            "warn",
            f"{total - len(timed)} of {total} events have no time",
            "have the source write one; rules about time are unevaluable without",
        )
    ahead = max(moment for _, moment in timed) - now
    if ahead > AHEAD:
        return Check(
            "clock",
            "fail",
            f"the latest event is {ahead:.0f} s in the future",
            "set the producers' clocks, and ours; an early clock closes other sessions as idle",
        )
    lags = [record.time - moment for record, moment in timed if record.time is not None]
    usual = median(lags) if lags else 0.0
    if abs(usual) > BEHIND:
        return Check(
            "clock",
            "warn",
            f"events are usually {usual:.0f} s older than their records",
            "fine for a replay; otherwise look at the exporter and at the producers' clocks",
        )
    return Check("clock", "ok", f"events are usually {usual:.1f} s older than their records")


# The checks of a broker and its topics: whether it answers and lets us in, what is there, and a sample of it.


PATIENCE: Final = 5.0  # seconds; the caller waits for the answer
_LOOPBACK: Final = ("127.", "localhost", "[::1]")


def impatient(kafka: KafkaSettings) -> KafkaSettings:
    """Return the settings for somebody who waits for the answer."""
    return kafka.model_copy(update={"patience": min(PATIENCE, kafka.patience)})


def examine(
    address: Address, companions: Sequence[str], settings: Settings, decoder: Decoder, size: int
) -> Iterator[Check]:
    """Yield the checks of a broker, of its topics, and of the newest records in them."""
    kafka = impatient(settings.kafka)
    servers = choose_servers(address.servers, kafka)
    try:
        connection = open_consumer(servers, kafka)
    except BrokerError as error:
        yield from _say_refusal(error, servers)
        return
    try:
        yield Check("broker", "ok", f"{','.join(servers)} answers")
        yield _check_security(servers, kafka)
        counted = {
            topic: len(connection.client.partitions_for_topic(topic)) for topic in (*address.topics, *companions)
        }
    finally:
        connection.close(autocommit=False)
    yield _check_topics(counted)
    present = {topic: counted[topic] for topic in address.topics if counted[topic]}
    beside = {topic: counted[topic] for topic in companions if counted[topic]}
    if not present:
        return
    yield check_partitions(present, beside)
    yield from check_sample(_take_sample(address, present, kafka, settings, decoder, size), partition_of_key)


def _say_refusal(error: BrokerError, servers: tuple[str, ...]) -> Iterator[Check]:
    found, _, advice = str(error).rpartition("; ")
    if error.stage != "login":
        yield Check("broker", "fail", found, advice)
        return
    yield Check("broker", "ok", f"{','.join(servers)} answers")
    yield Check("login", "fail", found, advice)


def _check_security(servers: tuple[str, ...], kafka: KafkaSettings) -> Check:
    protocol = kafka.security_protocol
    asked = protocol.startswith("SASL")
    who = f"logged in as {describe_login(kafka)}" if asked else "no login by password"
    if protocol.endswith("SSL"):
        return Check("login", "ok", f"{who}; encrypted")
    if all(server.startswith(_LOOPBACK) for server in servers):
        return Check("login", "ok", f"{who}; not encrypted, on this machine")
    advice = "set kafka.security_protocol to SASL_SSL, or SSL with a certificate of our own"
    return Check("login", "warn", f"{who}; whoever is on the way can read and change everything", advice)


def _check_topics(counted: Mapping[str, int]) -> Check:
    missing = [topic for topic, count in counted.items() if not count]
    if missing:
        advice = "create them, or ask for the right to read them"
        return Check("topics", "fail", f"not there, or not for us: {', '.join(missing)}", advice)
    return Check("topics", "ok", f"{', '.join(counted)} can be read")


def _take_sample(
    address: Address,
    partitions: Mapping[str, int],
    kafka: KafkaSettings,
    settings: Settings,
    decoder: Decoder,
    size: int,
) -> Sample:
    sample = Sample(partitions)
    share = max(1, size // sum(partitions.values()))
    newest = Address(address.servers, tuple(partitions))
    source = open_kafka(
        f"{newest}?from=-{share}", kafka, follow=False, limit=settings.decode.max_record_bytes, positions={}
    )
    try:
        for record in source:
            if record is not None:
                sample.add(record, decoder)
    finally:
        source.close()
    return sample


# Check that a gate is in front of the tools: send a call through it that must be blocked.


_PATIENCE = 5.0  # seconds


def probe(target: str, token: str = "") -> str:
    """Return what is wrong with a gate, or an empty string when it blocked the probe.

    The target is the URL of a server, or ``package.module:name`` of a gate or of an object that an integration made.
    """
    if target.startswith(("http://", "https://")):
        return _probe_server(target.rstrip("/"), token)
    return _probe_object(_load(target), target)


def _probe_server(url: str, token: str) -> str:
    body = json.dumps({"session_id": PROBE, "tool": PROBE, "args": {}}).encode()
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = Request(f"{url}/v1/check", body, headers)  # noqa: S310  (the schemes are checked above)
    try:
        # No proxy: the question is whether this process reaches the gate.
        with build_opener(ProxyHandler({})).open(request, timeout=_PATIENCE) as answer:
            ruling = json.load(answer)
    except HTTPError as error:
        with error:
            return f"the server answered {error.code}: {error.read(300).decode('utf-8', 'replace')}"
    except (URLError, OSError, ValueError) as error:
        return f"the server did not answer: {error}"
    action = ruling.get("action") if isinstance(ruling, dict) else None
    return "" if action == Action.BLOCK.word and ruling.get("judged") else f"the probe was not blocked: {action}"


def _probe_object(gate: Any, target: str) -> str:
    if hasattr(gate, "probe"):
        return "" if gate.probe() else "the probe was let through"
    if not hasattr(gate, "check"):
        raise SettingsError(f"{target} has neither probe nor check; name a gate, or what an integration made of one")
    ruling = gate.check(ToolCall(session_id=PROBE, tool=PROBE, args={}))
    return "" if ruling.action is Action.BLOCK else f"the probe was not blocked: {ruling.action.word}"


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"--probe {target}: {error}; write http://host:port or package.module:name") from None
    return found


# The checks of the installation: which build runs, which extras are there, and what this system lacks.


# For people who change the project; nobody misses them in an installation.
_OF_DEVELOPERS: Final = frozenset(("dev", "docs"))
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9._-]+).*;.*\bextra == ['\"]([A-Za-z0-9._-]+)['\"]")
_LACKS: Final = {
    "linux": "",
    "darwin": (
        "macOS: workers outlive a supervisor that is killed, the processes of --jobs take a second to start, "
        "and the extra kafka compiles Faust"
    ),
}
_ELSEWHERE: Final = "not a system that stream_guard is tested on: Linux is, and macOS with less"


def check_installation() -> Iterator[Check]:
    """Yield what is installed, and on what."""
    yield Check("build", "ok", describe_build(), other_build())
    try:
        missing = _missing_extras()
    except PackageNotFoundError:
        yield Check("extras", "warn", f"{NAME} is not installed, only on the path", install_line())
    else:
        yield _check_extras(missing)
    lacks = _LACKS.get(sys.platform, _ELSEWHERE)
    yield Check("system", "warn" if lacks else "ok", lacks or "everything works here")


def _check_extras(missing: dict[str, list[str]]) -> Check:
    present = ", ".join(sorted(extra for extra, packages in missing.items() if not packages)) or "none"
    absent = ", ".join(sorted(extra for extra, packages in missing.items() if packages)) or "none"
    advice = f"where you need one: {install_line('NAME')}" if absent != "none" else ""
    return Check("extras", "ok", f"installed: {present}; not installed: {absent}", advice)


def _missing_extras() -> dict[str, list[str]]:
    """Return the packages that each extra lacks."""
    needed: dict[str, list[str]] = {}
    for line in distribution(NAME).requires or ():
        if (found := _REQUIREMENT.match(line)) and found[2] not in _OF_DEVELOPERS:
            needed.setdefault(found[2], []).append(found[1])
    return {extra: [name for name in packages if not _is_installed(name)] for extra, packages in needed.items()}


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


# The checks of sinks: whether each is there and lets us in; on request, whether it takes a test alert.


_ADVICE: Final = "check the address, the network, and the token, secret or password of the sink"
_UNTRIED: Final = "only a test alert shows more: --send-test"


def check_sinks(ways: Mapping[str, RouteSettings], assembly: Assembly, *, send_test: bool) -> Iterator[Check]:
    """Yield a check for each sink, by the name of its route; with ``send_test`` each is sent an alert."""
    for name, way in ways.items():
        about = f"sink {name}"
        try:
            sink = assembly.open_sink(way.read_to(), route=way)
        except (SettingsError, SinkError) as error:
            yield Check(about, "fail", f"cannot be opened: {error}", "mend the route, or what it leads to")
            continue
        found, advice = "can be opened", "" if send_test else _UNTRIED
        try:
            if isinstance(sink, ProbedSink):
                found, advice = sink.probe(), ""
            tried = f"; {_send_test(sink)}" if send_test else ""
        except SinkError as error:
            yield Check(about, "fail", str(error), _ADVICE)
        else:
            yield Check(about, "ok", f"{found}{tried}", advice)


def _send_test(sink: Sink) -> str:
    """Send an alert that says what it is; SinkError where it is not taken."""
    alert_id = f"test-{token_hex(8)}"
    alert = Alert(
        alert_id=alert_id,
        rule_id="stream-guard-test",
        kind="stream_guard_test",
        severity="info",
        session_id="",
        event_id="",
        index=None,
        time=time.time(),
        detail="A test alert, sent by stream-guard doctor. Nothing happened.",
        policy_version="",
    )
    sink.send([alert])
    sink.flush()
    return f"took the test alert {alert_id}"
