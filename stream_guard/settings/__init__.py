"""Settings of a process: defaults < YAML file < environment (STREAM_GUARD_...) < flags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource
from pydantic_settings import SettingsError as UnreadableVariable

from stream_guard.errors import SettingsError
from stream_guard.settings.files import read_file
from stream_guard.settings.sections import (
    DELIMITER,
    PREFIX,
    ApiSettings,
    CommitSettings,
    ComplianceSettings,
    DecodeSettings,
    HistorySettings,
    JudgeSettings,
    KafkaSettings,
    LogSettings,
    Names,
    PluginSettings,
    ReviewSettings,
    Section,
    SessionLimits,
    Settings,
    StatusSettings,
    WorkerSettings,
)
from stream_guard.settings.wording import explain, refuse_unknown_variables

__all__ = [
    "DELIMITER",
    "PREFIX",
    "ApiSettings",
    "CommitSettings",
    "ComplianceSettings",
    "DecodeSettings",
    "HistorySettings",
    "JudgeSettings",
    "KafkaSettings",
    "LogSettings",
    "Names",
    "PluginSettings",
    "ReviewSettings",
    "Section",
    "SessionLimits",
    "Settings",
    "StatusSettings",
    "WorkerSettings",
    "load_settings",
]


def load_settings(file: Path | None = None, **flags: Any) -> Settings:
    """Return the settings, or raise SettingsError that names each wrong one and where it was set.

    A flag is a section with some of its settings, ``serve={"port": 9464}``; None means that it was not given.
    """
    written = {} if file is None else read_file(file)
    given = _without_none(flags)
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
            return (*layers, InitSettingsSource(settings_cls, init_kwargs=written))

    try:
        layered = Layered(**given)
    except ValidationError as error:
        lines = [explain(item, given, written, file) for item in error.errors()]
        raise SettingsError("\n".join(lines)) from None
    except UnreadableVariable as error:
        raise SettingsError(
            f"environment: {error}; set one setting per variable, as in {PREFIX}SERVE{DELIMITER}PORT=9464"
        ) from None
    return Settings.model_construct(**{name: getattr(layered, name) for name in Settings.model_fields})


def _without_none(flags: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        section: {name: value for name, value in values.items() if value is not None}
        if isinstance(values, dict)
        else values
        for section, values in flags.items()
    }
    return {section: values for section, values in given.items() if values not in (None, {})}
