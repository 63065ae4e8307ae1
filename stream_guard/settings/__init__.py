"""Settings of a process: defaults < YAML file < environment (STREAM_GUARD_...) < flags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource
from pydantic_settings import SettingsError as UnreadableVariable
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode

from stream_guard.errors import SettingsError
from stream_guard.settings.sections import (
    DELIMITER,
    PREFIX,
    ApiSettings,
    CommitSettings,
    ComplianceSettings,
    DecodeSettings,
    DeliverySettings,
    DiffSettings,
    HistorySettings,
    HookSettings,
    JudgeSettings,
    KafkaSettings,
    LogSettings,
    ModelPrice,
    Names,
    PageSettings,
    PluginSettings,
    ReceiverSettings,
    ReviewSettings,
    RouteSettings,
    Section,
    SessionLimits,
    Settings,
    StatusSettings,
    WorkerSettings,
    read_secret,
)

__all__ = [
    "DELIMITER",
    "PREFIX",
    "ApiSettings",
    "CommitSettings",
    "ComplianceSettings",
    "DecodeSettings",
    "DeliverySettings",
    "DiffSettings",
    "HistorySettings",
    "HookSettings",
    "JudgeSettings",
    "KafkaSettings",
    "LogSettings",
    "ModelPrice",
    "Names",
    "PageSettings",
    "PluginSettings",
    "ReceiverSettings",
    "ReviewSettings",
    "RouteSettings",
    "Section",
    "SessionLimits",
    "Settings",
    "StatusSettings",
    "WorkerSettings",
    "load_settings",
    "read_secret",
]


# Load the settings: read the file, put the layers over each other, and explain what is wrong.


def load_settings(file: Path | None = None, **flags: Any) -> Settings:
    """Return the settings, or raise SettingsError that names each wrong one and where it was set.

    A flag is a section with some of its settings, ``serve={"port": 9464}``. A setting that is None was not set.
    """
    in_file = {} if file is None else read_file(file)
    by_flag = _without_none(flags)
    refuse_unknown_variables()

    class Layered(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            *sources: PydanticBaseSettingsSource,
            **named: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            layers = super().settings_customise_sources(settings_cls, *sources, **named)
            return (*layers, InitSettingsSource(settings_cls, init_kwargs=in_file))

    try:
        layered = Layered(**by_flag)
    except ValidationError as error:
        lines = [explain(item, by_flag, in_file, file) for item in error.errors()]
        raise SettingsError("\n".join(lines)) from None
    except UnreadableVariable as error:
        raise SettingsError(
            f"environment: {error}; set one setting per variable, as in {PREFIX}SERVE{DELIMITER}PORT=9464"
        ) from None
    return Settings.model_construct(**{name: getattr(layered, name) for name in Settings.model_fields})


def _without_none(flags: Mapping[str, Any]) -> dict[str, Any]:
    by_flag = {
        section: {name: value for name, value in values.items() if value is not None}
        if isinstance(values, dict)
        else values
        for section, values in flags.items()
    }
    return {section: values for section, values in by_flag.items() if values not in (None, {})}


def read_file(file: Path) -> dict[str, Any]:
    """Return the sections that a file has, or raise SettingsError."""
    try:
        data = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file}: the settings file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}: the settings file is not UTF-8: {error}") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise SettingsError(f"{file}{place}: not YAML: {error.problem}") from None
    except (YAMLError, RecursionError) as error:
        raise SettingsError(f"{file}: not YAML: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        known = ", ".join(Settings.model_fields)
        raise SettingsError(f"{file}: a settings file is a mapping of the sections {known}")
    return {section: values for section, values in data.items() if values is not None}


def line_of(file: Path, steps: list[str]) -> int:
    """Return the line of the deepest step that the file has."""
    node, line = YAML(typ="safe", pure=True).compose(file.read_text(encoding="utf-8")), 1
    for step in steps[:2]:
        pairs = node.value if isinstance(node, MappingNode) else []
        for key, value in pairs:
            if key.value == step:
                node, line = value, key.start_mark.line + 1
    return line


def refuse_unknown_variables() -> None:
    """Raise SettingsError for a variable that names a section that does not exist.

    Only names with the delimiter: an orchestrator sets STREAM_GUARD_SERVICE_HOST and the like for a
    service of that name, and those are not meant for us.
    """
    for name in sorted(os.environ):
        section, delimiter, _ = name.upper().removeprefix(PREFIX).partition(DELIMITER)
        if name.upper().startswith(PREFIX) and delimiter and section.lower() not in Settings.model_fields:
            raise SettingsError(
                f'environment variable {name}: unknown section "{section.lower()}"'
                f"{_meant(section.lower(), Settings.model_fields)}; sections: {', '.join(Settings.model_fields)}"
            )


def explain(item: ErrorDetails, by_flag: dict[str, Any], in_file: dict[str, Any], file: Path | None) -> str:
    """Return what is wrong with a setting, and where it was set: by a flag, a variable or in the file."""
    steps = [str(step) for step in item["loc"]]
    where = _where(steps, by_flag, in_file, file)
    name = ".".join(steps)
    if item["type"] != "extra_forbidden":
        secret = any(word in steps[-1] for word in ("password", "token", "secret")) or "routes" in steps
        found = "a value that is not shown" if secret else _short(item["input"])
        return f"{where}: setting {name}: {_lower(item['msg'])}; found {found}"
    prefix, known = "", list(Settings.model_fields)
    if len(steps) > 3 and steps[1] == "routes":
        prefix, known = ".".join(steps[:3]) + ".", list(RouteSettings.model_fields)
    elif len(steps) > 1:
        prefix, known = f"{steps[0]}.", list(getattr(Settings.model_fields[steps[0]].annotation, "model_fields", ()))
    listed = ", ".join(prefix + one for one in known)
    return f'{where}: unknown setting "{name}"{_meant(steps[-1], known, prefix)}; known: {listed}'


def _where(steps: list[str], by_flag: dict[str, Any], in_file: dict[str, Any], file: Path | None) -> str:
    """Return the layer that the value came from: the highest that has it."""
    if _has(by_flag, steps):
        return "flag"
    variables = {PREFIX + DELIMITER.join(steps[:depth]).upper() for depth in (1, 2)}
    for name in os.environ:
        if name.upper() in variables:
            return f"environment variable {name}"
    return f"{file}:{line_of(file, steps)}" if file is not None and _has(in_file, steps) else "settings"


def _has(data: Any, steps: list[str]) -> bool:
    for step in steps[:2]:
        if not isinstance(data, dict) or step not in data:
            return not isinstance(data, dict)
        data = data[step]
    return True


def _meant(found: str, known: Any, prefix: str = "") -> str:
    close = get_close_matches(found, list(known), 1)
    return f'; did you mean "{prefix}{close[0]}"?' if close else ""


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
