"""The log: one line for each message, whatever is in it, and no secrets."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_guard.observability.logs import JsonLines, PlainLines, set_up_logs
from stream_guard.settings import LogSettings

LOGGER = logging.getLogger("stream_guard.test_logs")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    put_back = set_up_logs(LogSettings())
    yield
    put_back()


def said(**settings: Any) -> io.StringIO:
    stream = io.StringIO()
    set_up_logs(LogSettings(**settings), stream)
    return stream


def test_json_is_one_object_a_line_with_time_level_and_logger() -> None:
    stream = said(format="json")
    LOGGER.warning("%s: %d\nlines", "a.jsonl", 3, extra={"partition": 7, "where": Path("a.jsonl")})
    [line] = stream.getvalue().splitlines()
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "warning",
        "logger": "stream_guard.test_logs",
        "message": "a.jsonl: 3\nlines",
        "partition": 7,
        "where": "a.jsonl",
    }


@pytest.mark.parametrize("form", ["json", "text"])
def test_secrets_are_masked_in_messages_values_and_tracebacks(form: str) -> None:
    stream = said(format=form)
    try:
        int("password=hunter2secret")
    except ValueError:
        LOGGER.exception("login with token=abc and Bearer abcdef0123456789abcdef", extra={"api_key": "sk-" + "x" * 20})
    LOGGER.error("%s", {"password": "hunter2secret"})
    assert "hunter2secret" not in stream.getvalue()
    assert "abcdef0123456789" not in stream.getvalue()
    assert "x" * 20 not in stream.getvalue()


def test_an_extra_value_is_masked_by_its_name_inside_an_object() -> None:
    stream = said(format="json")
    LOGGER.warning("connected", extra={"settings": {"sasl_password": "correct horse"}})
    assert json.loads(stream.getvalue())["settings"] == {"sasl_password": "[masked]"}


def test_a_message_stays_one_line_for_people_and_moves_no_cursor() -> None:
    stream = said()
    LOGGER.warning("file \x1b[2J\n and \u2028 more")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert "warning file \\x1b[2J\\n" in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_lone_surrogate_can_be_written(form: str) -> None:
    stream = said(format=form)
    LOGGER.warning("the file %s", "\udcff.jsonl")
    assert stream.getvalue().encode()


def test_a_message_without_end_is_cut() -> None:
    stream = said()
    LOGGER.warning("x y " * 100_000)
    assert len(stream.getvalue()) < 5000
    assert "400000 characters" in stream.getvalue()


def test_what_is_below_the_level_is_not_said() -> None:
    stream = said(level="error")
    LOGGER.warning("quiet")
    LOGGER.error("loud")
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


def test_setting_up_again_replaces_what_was_set_up() -> None:
    first, second = said(), said(format="json")
    LOGGER.warning("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_importing_the_package_sets_nothing_up() -> None:
    code = (
        "import logging, stream_guard, stream_guard.running.embedded; print(logging.getLogger('stream_guard').handlers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("formatter", [JsonLines(), PlainLines()])
def test_a_record_without_arguments_or_error_is_formatted(formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord({"msg": "hello 100%", "levelname": "INFO", "name": "stream_guard"})
    assert "hello 100%" in formatter.format(record)


def test_run_writes_its_log_as_json_when_asked(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("rules: [{id: a, kind: no_call, params: {tool: x}}]\n")
    (tmp_path / "a.jsonl").write_bytes(b"")
    (tmp_path / "b.jsonl.gz").write_bytes(b"this is not gzip")
    command = [sys.executable, "-m", "stream_guard.cli", "run", str(tmp_path), "--no-follow", "--no-serve"]
    command += ["--policy", str(tmp_path / "policy.yaml"), "--log-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [(line["level"], line["logger"]) for line in lines] == [("warning", "stream_guard.sources.folder")]
