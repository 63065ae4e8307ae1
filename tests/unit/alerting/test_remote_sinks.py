"""Sinks over HTTP: what they send, how they are told apart from an impostor, and what an answer means."""

from __future__ import annotations

import base64
import hmac
import logging
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import SecretStr
from stream_guard_sinks.chat import defuse
from stream_guard_sinks.webhook import sign

import stream_guard as sg
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import DeliverySettings, PluginSettings, RouteSettings, Settings
from stream_guard.testing import alert
from stream_guard.testing.sink_laws import odd_alerts
from tests.http_end import HttpEnd, Reply
from tests.kafka import certificates
from tests.parts import import_part, require

SINKS = build_registry(PluginSettings(allow=("sinks",))).sinks
KEY = base64.b64encode(bytes(range(32))).decode()
NEW_KEY = base64.b64encode(bytes(range(1, 33))).decode()
PAGE = "https://guard.example.com/"
FOUND = alert(
    1, time=1_700_000_000.0, severity="critical", agent="bot", labels={"tenant": "acme"}, evidence={"amount": 5}
)
REVIEW = alert(2, kind="stream_guard_review", alert_id="review-abc")


@pytest.fixture
def end() -> Iterator[HttpEnd]:
    with HttpEnd() as made:
        yield made


def open_sink(name: str, target: str, **settings: Any) -> sg.Sink:
    return SINKS[name].open(target, settings=RouteSettings(page_url=PAGE, **settings))


def test_alertmanager_gets_labels_that_are_the_same_for_one_rule_and_session(end: HttpEnd) -> None:
    sink = open_sink("alertmanager", f"{end.url}/prefix/", resolve_after=3600)
    other = msgspec.structs.replace(FOUND, alert_id="other", event_id="e9", agent="helper", time=1_700_000_100.0)
    sink.send([FOUND, other, REVIEW])
    sink.close()
    [request] = end.requests
    assert request.path == "/prefix/api/v2/alerts"
    first, second, review = request.json
    assert first["labels"] == second["labels"]
    assert first["labels"]["alertname"] == FOUND.rule_id
    assert (first["labels"]["session"], first["labels"]["tenant"]) == (FOUND.session_id, "acme")
    assert first["generatorURL"] == f"https://guard.example.com/alerts/{FOUND.alert_id}"
    assert review["generatorURL"] == "https://guard.example.com/reviews/abc"
    assert review["labels"] != {**first["labels"], "kind": review["labels"]["kind"]}
    assert first["startsAt"] == "2023-11-14T22:13:20Z"
    assert first["startsAt"] < first["endsAt"]


def test_an_alert_from_the_future_does_not_end_before_it_starts(end: HttpEnd) -> None:
    sink = open_sink("alertmanager", end.url)
    assert isinstance(sink, sg.ResolvingSink)
    sink.resolve([msgspec.structs.replace(FOUND, time=4_000_000_000.0)])
    [entry] = end.requests[0].json
    assert entry["startsAt"] <= entry["endsAt"]


def test_a_webhook_is_signed_as_the_specification_says(end: HttpEnd) -> None:
    sink = open_sink("webhook", f"{end.url}/in?x=1", secret=SecretStr(f"whsec_{KEY} whsec_{NEW_KEY}"))
    sink.send([FOUND])
    [request] = end.requests
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    expected = "v1," + base64.b64encode(hmac.new(bytes(range(32)), signed, sha256).digest()).decode()
    signatures = request.headers["webhook-signature"].split()
    assert signatures[0] == expected
    assert len(set(signatures)) == 2  # one for each secret, so that a secret can be exchanged
    assert request.headers["webhook-id"] == FOUND.alert_id
    assert request.json["type"] == "stream_guard.alert"
    assert request.json["data"]["link"].endswith(FOUND.alert_id)
    assert request.path == "/in?x=1"


def test_the_published_example_of_a_signature_comes_out() -> None:
    # From the specification's own test vectors.
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    name, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'
    assert sign(key, name, 1614265330, body) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64!"])
def test_a_webhook_without_a_good_secret_is_refused_without_showing_it(secret: str, end: HttpEnd) -> None:
    with pytest.raises(sg.SinkError, match="needs a secret") as refused:
        open_sink("webhook", end.url, secret=SecretStr(secret))
    assert "c2hvcnQ" not in str(refused.value)


def test_a_batch_that_fails_half_way_is_not_posted_twice(end: HttpEnd) -> None:
    sink = open_sink("webhook", end.url, secret=SecretStr(f"whsec_{KEY}"))
    end.replies = [Reply(), Reply(503)]
    with pytest.raises(sg.SinkError):
        sink.send([alert(1), alert(2), alert(3)])
    sink.send([alert(1), alert(2), alert(3)])
    names = [request.headers["webhook-id"] for request in end.requests]
    assert names == [alert(number).alert_id for number in (1, 2, 2, 3)]


def test_log_records_have_the_fields_of_the_data_model(end: HttpEnd) -> None:
    open_sink("otlp", end.url).send([FOUND, msgspec.structs.replace(FOUND, severity="warning")])
    [request] = end.requests
    assert request.path == "/v1/logs"
    first, second = request.json["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert (first["severityNumber"], second["severityNumber"]) == (21, 13)
    assert first["timeUnixNano"] == "1700000000000000000"
    attributes = {one["key"]: one["value"]["stringValue"] for one in first["attributes"]}
    assert attributes["session.id"] == FOUND.session_id
    assert attributes["stream_guard.label.tenant"] == "acme"


def test_log_records_are_what_opentelemetry_s_own_reader_takes(end: HttpEnd) -> None:
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    open_sink("otlp", end.url).send([FOUND, REVIEW, *odd_alerts()])
    read = ParseDict(end.requests[0].json, ExportLogsServiceRequest())  # an unknown field is an error
    [record, *_] = read.resource_logs[0].scope_logs[0].log_records
    assert (record.body.string_value, record.event_name) == (FOUND.detail, "stream_guard.alert")


def test_a_collector_that_takes_only_some_records_has_not_taken_the_batch(end: HttpEnd) -> None:
    end.reply = Reply(body=b'{"partialSuccess": {"rejectedLogRecords": "1"}}')
    with pytest.raises(sg.SinkError, match="refused 1 log") as refused:
        open_sink("otlp", end.url).send([FOUND])
    assert not refused.value.retryable


def test_a_finding_has_what_the_class_2004_requires(end: HttpEnd, tmp_path: Path) -> None:
    open_sink("ocsf", f"{end.url}/in").send([FOUND])
    [found] = end.requests[0].json
    for name in (
        "activity_id",
        "category_uid",
        "class_uid",
        "finding_info",
        "metadata",
        "severity_id",
        "time",
        "type_uid",
    ):
        assert name in found
    assert (found["class_uid"], found["type_uid"], found["category_uid"]) == (2004, 200401, 2)
    assert (found["severity_id"], found["metadata"]["tenant_uid"]) == (5, "acme")
    assert found["finding_info"]["uid"] == FOUND.alert_id
    file = open_sink("ocsf", str(tmp_path / "findings.jsonl"))
    file.send([FOUND, *odd_alerts()])
    file.close()
    lines = [msgspec.json.decode(line) for line in (tmp_path / "findings.jsonl").read_bytes().splitlines()]
    assert [line["class_uid"] for line in lines] == [2004] * 4


def test_a_chat_gets_a_message_that_calls_nobody(end: HttpEnd) -> None:
    import_part("apprise")
    sink = open_sink("apprise", end.url.replace("http://", "json://"))
    sink.send([msgspec.structs.replace(FOUND, detail="@everyone look <!channel> at\x1b[2J ada@example.com")])
    [request] = end.requests
    told = request.json
    assert told["title"] == f"[CRITICAL] {FOUND.rule_id}"
    assert "@ everyone look < !channel> at\\x1b[2J ada@example.com" in told["message"]
    assert f"https://guard.example.com/alerts/{FOUND.alert_id}" in told["message"]
    end.reply = Reply(500)
    with pytest.raises(sg.SinkError) as refused:
        sink.send([FOUND])
    assert refused.value.retryable


def test_defusing_leaves_addresses_alone() -> None:
    assert defuse("ada@here.example @HERE <@U1> a<b") == "ada@ here.example @ HERE < @U1> a<b"


@pytest.mark.parametrize(
    ("reply", "retryable", "after"),
    [
        (Reply(500), True, 0),
        (Reply(503, {"retry-after": "17"}), True, 17),
        (Reply(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}), True, 0),
        (Reply(401), True, 0),
        (Reply(400), False, 0),
        (Reply(413), False, 0),
        (Reply(302, {"location": "http://elsewhere.example/"}), False, 0),
    ],
)
def test_an_answer_says_whether_another_try_may_help(reply: Reply, retryable: bool, after: float, end: HttpEnd) -> None:
    end.reply = reply
    with pytest.raises(sg.SinkError) as refused:
        open_sink("otlp", end.url).send([FOUND])
    assert (refused.value.retryable, refused.value.retry_after) == (retryable, after)
    assert len(end.requests) == 1


def test_nobody_there_is_worth_another_try() -> None:
    with HttpEnd() as gone:
        url = gone.url
    with pytest.raises(sg.SinkError, match="cannot be reached") as refused:
        open_sink("alertmanager", url, timeout=2).send([FOUND])
    assert refused.value.retryable


def test_a_receiver_is_known_by_its_certificate_and_the_log_says_when_it_is_not(tmp_path: Path) -> None:
    require(not certificates.missing_part(), certificates.missing_part())
    made = certificates.make_certificates(tmp_path)
    with HttpEnd(certificate=made.broker) as end:
        open_sink("alertmanager", end.url, ca_file=made.authority).send([FOUND])
        assert len(end.requests) == 1
        for unknown in (made.stranger, None):
            with pytest.raises(sg.SinkError, match=r"cannot be reached: ConnectError: .*certificate verify failed"):
                open_sink("alertmanager", end.url, ca_file=unknown).send([FOUND])
        assert len(end.requests) == 1
    with pytest.raises(sg.SinkError, match="cannot be set up"):
        open_sink("alertmanager", end.url, ca_file=tmp_path / "none.pem")


def test_canary_secrets_reach_no_sink_no_log_no_outbox(
    end: HttpEnd, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import_part("apprise")
    planted = "sk-ant-api03-" + "Q7w9Er2tY4ui6Op8aS1dF3gH5jK0lZ" * 3
    token, address, signing = (
        "canary-token-1",
        "canary-path-2",
        base64.b64encode(b"canary-signing-secret-3!" * 2).decode(),
    )
    (tmp_path / "chat").write_text(f"apprise:{end.url.replace('http', 'json', 1)}/{address}")
    targets = {
        "pager": RouteSettings(to=SecretStr(f"alertmanager:{end.url}"), token=SecretStr(token)),
        "hook": RouteSettings(to=SecretStr(f"webhook:{end.url}/{address}"), secret=SecretStr(f"whsec_{signing}")),
        "chat": RouteSettings(to_file=tmp_path / "chat"),
        "siem": RouteSettings(to=SecretStr(f"ocsf:{end.url}/ocsf")),
        "logs": RouteSettings(to=SecretStr(f"otlp:{end.url}")),
    }
    settings = Settings(delivery=DeliverySettings(outbox=tmp_path / "outbox.db", routes=targets))
    finding = sg.Finding(
        alert_id="a",
        rule_id="r",
        slot="r",
        kind="k",
        severity=sg.Severity.CRITICAL,
        session_id=f"s {planted}",
        event_id="e",
        index=1,
        time=1.0,
        detail=f"called with {planted}",
        evidence={"args": {"key": planted, "nested": [planted]}},
        agent=planted,
        labels={"tenant": "t", "note": planted},
    )
    end.replies = [Reply(503)] * 5  # errors are logged: with the name of the route, not with its address
    with caplog.at_level(logging.DEBUG), Assembly(settings) as assembly:
        delivery = assembly.open_delivery([], sg.Counts(), routes=True)
        delivery.deliver([sg.make_alert(finding, "v")])
        assert end.wait_for(10)  # each route failed once
    sent = b"".join(request.body for request in end.requests).decode()
    assert {request.path for request in end.requests} >= {"/api/v2/alerts", f"/{address}", "/ocsf", "/v1/logs"}
    assert planted not in sent
    assert not any(planted in str(request.headers) for request in end.requests)
    shown = caplog.text + (tmp_path / "outbox.db").read_bytes().decode("latin-1") + repr(settings)
    for secret in (planted, token, address, signing):
        assert secret not in shown
