"""``config show`` prints what is in force, and no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.errors import SettingsError
from stream_guard.settings import Settings, load_settings


def test_what_is_in_force_is_shown_and_secrets_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("kafka:\n  bootstrap_servers: [a:1, b:2]\n  sasl_password: open-sesame\n")
    monkeypatch.setenv("STREAM_GUARD_KAFKA__SASL_USERNAME", "me")
    result = CliRunner().invoke(app, ["config", "show", "--settings", str(file)])
    assert result.exit_code == 0
    assert "sesame" not in result.stdout
    shown = YAML(typ="safe").load(result.stdout)
    assert list(shown) == list(Settings.model_fields)
    kafka = shown["kafka"]
    assert (kafka["bootstrap_servers"], kafka["sasl_username"]) == (["a:1", "b:2"], "me")
    assert kafka["sasl_password"] == "**********"
    as_json = CliRunner().invoke(app, ["config", "show", "--settings", str(file), "--format", "json"])
    assert json.loads(as_json.stdout) == shown


def test_a_password_inside_an_address_is_masked() -> None:
    from stream_guard.cli.packs import _mask_addresses

    masked = _mask_addresses({"history": {"url": "postgresql://me:open:sesame@db:5432/guard"}, "port": 3})
    assert masked == {"history": {"url": "postgresql://me:**********@db:5432/guard"}, "port": 3}


def test_a_wrong_password_setting_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("kafka:\n  sasl_password: [open, sesame]\n")
    result = CliRunner().invoke(app, ["config", "show", "--settings", str(file)])
    assert "kafka.sasl_password" in str(result.exception)
    assert "sesame" not in str(result.exception)


def test_secrets_of_routes_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("delivery: {routes: {pager: {to: 'alertmanager:http://u:canary-1@h', token: canary-2}}}")
    monkeypatch.setenv("STREAM_GUARD_DELIVERY__ROUTES__CHAT__TO", "apprise:slack://canary-3")
    monkeypatch.setenv("STREAM_GUARD_DELIVERY__ROUTES__CHAT__SECRET", "whsec_canary-4")
    for form in ("yaml", "json"):
        done = CliRunner().invoke(app, ["config", "show", "--format", form, "--settings", str(file)])
        assert done.exit_code == 0
        assert "chat" in done.output
        assert "pager" in done.output
        assert "canary" not in done.output


@pytest.mark.parametrize("wrong", ["{to: [canary]}", "{to: {canary: 1}}", "{secret: [canary]}", "{tokn: canary}"])
def test_a_wrong_route_is_named_and_its_values_are_not(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"delivery: {{routes: {{pager: {wrong}}}}}")
    with pytest.raises(SettingsError) as refused:
        load_settings(file)
    assert "delivery.routes.pager" in str(refused.value)
    assert "canary" not in str(refused.value)
    assert f"{file}:1" in str(refused.value)
