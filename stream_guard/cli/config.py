"""``config show``: the settings that are in force, without their secrets."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from typing import Annotated, Final

import msgspec
import typer

from stream_guard.commands import SettingsFile
from stream_guard.judge.model import Json

_PASSWORD: Final = re.compile(r"(?<=://)([^\s/:@]*):[^\s@]*@")


class ConfigFormat(StrEnum):
    """How settings are printed."""

    YAML = "yaml"
    JSON = "json"


def show(
    form: Annotated[ConfigFormat, typer.Option("--format", help="How to print the settings.")] = ConfigFormat.YAML,
    settings_file: SettingsFile = None,
) -> None:
    """Print the settings in force: defaults, then the file, then the environment; secrets are masked."""
    from stream_guard.settings import load_settings

    # As JSON, because that is where pydantic masks secrets.
    shown = _mask_addresses(load_settings(settings_file).model_dump(mode="json"))
    if form is ConfigFormat.JSON:
        typer.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())
        return
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.representer.add_representer(
        type(None), lambda made, _: made.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    yaml.dump(shown, sys.stdout)


def _mask_addresses(value: Json) -> Json:
    """Return the value with the passwords masked that stand inside addresses."""
    if isinstance(value, dict):
        return {name: _mask_addresses(part) for name, part in value.items()}
    return _PASSWORD.sub(r"\1:**********@", value) if isinstance(value, str) else value
