"""Every sink keeps the laws, the laws find sinks that do not, and our sinks keep promises of their own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from stream_guard_sinks.console import make_visible
from stream_guard_sinks.webhook import SignedWebhookSink

from stream_guard import Alert, Sink, SinkError
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings, RouteSettings
from stream_guard.testing import alert, check_sink_laws
from stream_guard.testing.sink_laws import HOSTILE, check_refusal
from tests.http_end import HttpEnd
from tests.parts import import_part

SINKS = build_registry(PluginSettings(allow=("sinks",))).sinks


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.kafka] if name == "kafka" else ()) for name in SINKS]
)
def test_sink_keeps_the_laws(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    files = {"jsonl": "alerts", "history": "history.db", "ocsf": "findings.jsonl"}
    target = str(tmp_path / files[name]) if name in files else "stdout"
    if name == "kafka":
        cluster = request.getfixturevalue("cluster")
        target = f"{cluster.address}/{cluster.create()}"
    if name not in {"alertmanager", "apprise", "otlp", "webhook"}:
        check_sink_laws(SINKS[name], target)
        return
    if name == "apprise":
        import_part("apprise")
    with HttpEnd() as end:
        address = end.url.replace("http://", "json://") if name == "apprise" else end.url
        check_sink_laws(Signed if name == "webhook" else SINKS[name], address)
        assert end.requests


class Signed(SignedWebhookSink):
    """The webhook with the settings that it needs."""

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        return super().open(target, position=position, settings=RouteSettings(secret=SecretStr(f"whsec_{'A' * 44}")))


@pytest.mark.parametrize("name", SINKS)
def test_a_target_that_cannot_be_opened_says_what_to_do(name: str, tmp_path: Path) -> None:
    target = str(tmp_path / "no such folder" / "alerts")
    check_refusal(SINKS[name], target)
    with pytest.raises(SinkError, match=r";|not to"):
        SINKS[name].open(target)


class Kept(Sink):
    """A sink without a mistake; those below have one each."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        if not target:
            raise SinkError("give a target", retryable=False)
        return cls()

    def send(self, alerts: Sequence[Alert]) -> None:
        self.alerts += alerts

    def flush(self) -> int:
        return len(self.alerts)


class Hungry(Kept):
    def send(self, alerts: Sequence[Alert]) -> None:
        self.alerts.append(alerts[0])


class Strict(Kept):
    def send(self, alerts: Sequence[Alert]) -> None:
        self.alerts += [msgspec.json.decode(msgspec.json.encode(one), type=Alert) for one in alerts]


class Jealous(Kept):
    def send(self, alerts: Sequence[Alert]) -> None:
        if known := {one.alert_id for one in alerts} & {one.alert_id for one in self.alerts}:
            raise SinkError(f"known already: {known}", retryable=False)
        super().send(alerts)


class ClosedOnce(Kept):
    def close(self) -> None:
        del self.alerts


class Hasty(Kept):
    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        return cls()


def test_a_sink_without_a_mistake_keeps_the_laws() -> None:
    check_sink_laws(Kept, "there", refused="")


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Hungry, "check_nothing_to_send"),
        (Strict, "check_odd_alerts"),
        (Jealous, "check_sending_again"),
        (ClosedOnce, "check_closing_twice"),
        (Hasty, "check_refusal"),
    ],
)
def test_the_laws_find_the_mistake_of(kind: type[Sink], law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_sink_laws(kind, "there", refused="")


def ids(path: Path) -> list[int]:
    return [int(json.loads(line)["alert_id"], 16) for line in path.read_bytes().splitlines()]


def test_jsonl_writes_one_readable_line_per_alert_in_order(tmp_path: Path) -> None:
    sink = SINKS["jsonl"].open(str(tmp_path / "alerts"))
    sink.send([alert(1, evidence={"amount": 5}), alert(2, detail=HOSTILE.replace("\ud800", ""))])
    sink.close()
    [first, second] = [
        msgspec.json.decode(line, type=Alert) for line in (tmp_path / "alerts").read_bytes().splitlines()
    ]
    assert first == alert(1, evidence={"amount": 5})
    assert second.detail == HOSTILE.replace("\ud800", "")


def test_jsonl_passes_over_what_it_wrote_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "alerts"
    sink = SINKS["jsonl"].open(str(path))
    sink.send([alert(1)])
    position = sink.flush()
    sink.send([alert(2), alert(3)])
    sink.close()
    os.truncate(path, path.stat().st_size - 7)

    sink = SINKS["jsonl"].open(str(path), position=position)
    sink.send([alert(2), alert(3), alert(4)])
    sink.close()
    assert ids(path) == [1, 2, 3, 4]


WRITER = """
import sys
from tests.laws.test_sinks import SINKS, alert
sink = SINKS["jsonl"].open(sys.argv[1], position=0)
number = 0
while True:
    sink.send([alert(number), alert(number + 1)])
    number += 2
    if number == 20:
        print("writing", flush=True)
"""


@pytest.mark.parametrize("run", [0, *(pytest.param(run, marks=pytest.mark.long) for run in (1, 2))])
def test_jsonl_killed_in_the_middle_goes_on_without_loss_or_repeat(tmp_path: Path, root: Path, run: int) -> None:
    path = tmp_path / "alerts"
    command = [sys.executable, "-c", WRITER, str(path)]
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"writing\n"
            writer.send_signal(signal.SIGKILL)
    SINKS["jsonl"].open(str(path), position=0).close()
    found = ids(path)
    assert found == list(range(len(found)))


def test_jsonl_on_a_full_disk_asks_for_another_try() -> None:
    sink = SINKS["jsonl"].open("/dev/full")
    with pytest.raises(SinkError, match="no space left") as refused:
        sink.send([alert()])
    assert refused.value.retryable
    sink.close()


def test_jsonl_shares_its_file_with_nobody(tmp_path: Path) -> None:
    sink = SINKS["jsonl"].open(str(tmp_path / "alerts"))
    with pytest.raises(SinkError, match="another process"):
        SINKS["jsonl"].open(str(tmp_path / "alerts"))
    sink.close()


def test_jsonl_to_standard_output_prints_lines(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    SINKS["jsonl"].open("-").send([alert(7)])
    assert json.loads(capfdbinary.readouterr().out)["alert_id"] == alert(7).alert_id


def test_console_prints_a_plain_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    SINKS["console"].open("").send([alert(suppressed=2, reason="ask first")])
    assert capsys.readouterr().out == (
        "2026-01-31 12:00:00 ERROR confirm-refunds session=s1 turn=3: "
        "refund was called before confirm (ask first) [2 suppressed before it]\n"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("colour", [True, False])
def test_console_shows_agent_text_on_a_terminal_and_obeys_none_of_it(
    monkeypatch: pytest.MonkeyPatch, *, colour: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    sink = SINKS["console"].open("stdout")
    sink.send([alert(detail=HOSTILE)])
    sink.send([alert(detail="[red]no markup[/red] :boom:")])
    out = terminal.getvalue()
    assert out.count("severity") == 1, "the heading is printed once"
    assert "\\x1b[2J\\u202eevil\\u2066\\r\\n[bold]x[/bold]\\ud800\\x00\\u2028" in out
    assert "[red]no markup[/red] :boom:" in out
    assert not set("\u202e\u2066\x00\u2028\r") & set(out)
    assert "\x1b[2J" not in out
    # NO_COLOR leaves bold and the like; colours are 30 to 49.
    assert ("\x1b[1;31m" in out) == colour


def test_console_breaks_no_id_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    names = {"rule_id": "a-rule-with-a-long-name", "session_id": "session-2026-01-31-0007"}
    shown = msgspec.structs.replace(alert(reason="ask first, " * 8, detail=HOSTILE), **names)
    SINKS["console"].open("stdout").send([shown])
    lines = terminal.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert lines[0].startswith("12:00:00 ERROR a-rule-with-a-long-name session-2026-01-31-0007 turn 3:")
    assert all(line.startswith("    ") for line in lines[1:])
    assert max(map(len, lines)) <= 80
    assert "\\x1b[2J" in terminal.getvalue()


@given(st.text(st.characters(codec=None, categories=None)))
def test_made_visible_text_stays_on_its_line_and_shows_everything(text: str) -> None:
    assert make_visible(text).isprintable()
    assert len(make_visible(text)) >= len(text)


def test_console_without_a_reader_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(SinkError, match="gone away"):
        SINKS["console"].open("-").send([alert()])
    with pytest.raises(BrokenPipeError):
        stream.close()
