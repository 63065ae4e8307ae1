"""Settings: which layer wins, and what a mistake is answered with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_guard.errors import SettingsError
from stream_guard.settings import Settings, load_settings


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def test_without_anything_the_defaults_hold() -> None:
    assert load_settings() == Settings()
    assert load_settings().serve.host == "127.0.0.1"


def test_a_flag_wins_over_the_environment_and_the_environment_over_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, "serve: {host: '::1', port: 1, max_silence: 5s}\nsessions: {max_live: 7}\n")
    monkeypatch.setenv("STREAM_GUARD_SERVE__PORT", "2")
    monkeypatch.setenv("STREAM_GUARD_SERVE__MAX_SILENCE", "2m")
    settings = load_settings(file, serve={"port": 3, "host": None}, decode=None)
    assert (settings.serve.port, settings.serve.max_silence, settings.serve.host) == (3, 120.0, "::1")
    assert settings.sessions.max_live == 7
    assert settings.decode == Settings().decode


@pytest.mark.parametrize("written", ["rules,sinks", " rules , sinks,", '["rules", "sinks"]'])
def test_a_list_in_the_environment_may_be_written_with_commas(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_GUARD_PLUGINS__ALLOW", written)
    monkeypatch.setenv("STREAM_GUARD_PLUGINS__BLOCK", written)
    plugins = load_settings().plugins
    assert plugins.allow == plugins.block == ("rules", "sinks")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "serve:\n", "{}"])
def test_an_empty_file_or_section_changes_nothing(file: Path, text: str) -> None:
    assert load_settings(write(file, text)) == Settings()


def said(file: Path | None = None, **flags: Any) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings(file, **flags)
    return str(refused.value)


def test_every_mistake_is_named_with_its_source(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, "decode:\n  strict_keys: true\nserve:\n  prt: 80\n")
    monkeypatch.setenv("STREAM_GUARD_SESSIONS__MAX_LIVE", "-5")
    first, second, third = said(file, decode={"max_record_bytes": 0}).splitlines()
    assert first == "flag: setting decode.max_record_bytes: input should be greater than 0; found 0"
    assert second.startswith("environment variable STREAM_GUARD_SESSIONS__MAX_LIVE: setting sessions.max_live: input")
    assert third == (
        f'{file}:4: unknown setting "serve.prt"; did you mean "serve.port"?; '
        "known: serve.host, serve.port, serve.allow_remote, serve.max_silence"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", ":1:5: not YAML"),
        ("serve: {}\nserve: {}\n", ":2:1: not YAML: found duplicate key"),
        ("- a\n", "a settings file is a mapping"),
        ("5: 6\n", "a settings file is a mapping"),
        ("serve: 5\n", ":1: setting serve:"),
        ("sesions: {}\n", 'unknown setting "sesions"; did you mean "sessions"?'),
        ("serve: {max_silence: -1}\n", "is not a span of time"),
        ("serve: &a [*a]\n", "setting serve"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(file: Path, text: str, message: str) -> None:
    assert message in said(write(file, text))


def test_a_file_that_is_not_there_or_not_text_is_refused(file: Path) -> None:
    assert "cannot be read: No such file" in said(file)
    file.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in said(file)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("STREAM_GUARD_SESION__MAX_LIVE", 'unknown section "sesion"; did you mean "sessions"?'),
        ("STREAM_GUARD_SESSIONS__MAX_LIVES", 'unknown setting "sessions.max_lives"; did you mean "sessions.max_live"?'),
        ("STREAM_GUARD_SESSIONS", "set one setting per variable"),
    ],
)
def test_a_misspelt_variable_is_refused(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "5 apples")
    assert message in said()


@pytest.mark.parametrize("name", ["STREAM_GUARD_SERVICE_HOST", "STREAM_GUARD_PORT", "STREAM_GUARD_PORT_8080_TCP"])
def test_variables_that_orchestrators_set_are_not_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:8080")
    assert load_settings() == Settings()


def test_a_list_that_is_broken_json_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_GUARD_PLUGINS__ALLOW", '["rules"')
    assert "environment variable STREAM_GUARD_PLUGINS__ALLOW: setting plugins.allow" in said()


def test_an_unknown_flag_is_refused() -> None:
    assert said(server={"port": 5}).startswith('flag: unknown setting "server"; did you mean "serve"?')


def test_every_setting_is_described() -> None:
    for section in Settings.model_fields.values():
        fields = getattr(section.annotation, "model_fields", {})
        assert fields
        assert all(field.description for field in fields.values()), section.annotation


def test_the_topics_of_workers_have_as_many_copies_as_the_brokers_say_unless_set() -> None:
    assert load_settings().worker.replication_factor == -1
    assert load_settings(worker={"replication_factor": 3}).worker.replication_factor == 3
    with pytest.raises(SettingsError, match="0 is no number of copies"):
        load_settings(worker={"replication_factor": 0})
