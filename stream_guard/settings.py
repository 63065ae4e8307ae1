"""Settings of a process: defaults < YAML file < environment (STREAM_GUARD_...) < flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from stream_guard.errors import SettingsError


class Section(BaseModel):
    """A group of settings; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Plugins(Section):
    """Which installed plugins may be loaded."""

    allow: tuple[str, ...] | None = Field(
        default=None, description="names to load; None loads every installed one and says which"
    )
    block: tuple[str, ...] = Field(default=(), description="names never to load")


class Decode(Section):
    """How records are read."""

    max_record_bytes: int = Field(default=8 * 2**20, gt=0, description="a larger record is a dead letter")
    strict_keys: bool = Field(
        default=True, description="refuse an object that has a key twice; one more pass over every record"
    )


class Sessions(Section):
    """Bounds on what is remembered; a metric counts each time one bites."""

    max_live: int = Field(default=1_000_000, gt=0, description="sessions open at once; the longest idle is closed")
    max_states: int = Field(default=1000, gt=0, description="states one session may hold, keyed ones included")
    max_open_calls: int = Field(default=256, gt=0, description="unanswered tool calls remembered per session")
    duplicate_window: int = Field(default=64, gt=0, description="event ids remembered per session")
    in_memory: int = Field(default=50_000, gt=0, description="sessions kept unpacked; the others are bytes")


class Serve(Section):
    """The small HTTP server for /metrics and /healthz."""

    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535, description="0 takes a free port and prints it")


class Settings(BaseSettings):
    """Everything a process can be told."""

    model_config = SettingsConfigDict(
        env_prefix="STREAM_GUARD_", env_nested_delimiter="__", extra="forbid", frozen=True, nested_model_default_partial_update=True
    )

    plugins: Plugins = Plugins()
    decode: Decode = Decode()
    sessions: Sessions = Sessions()
    serve: Serve = Serve()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags win over the environment, the environment over the file."""
        sources = (init_settings, env_settings, dotenv_settings, file_secret_settings)
        if settings_cls.model_config.get("yaml_file"):
            return (*sources, YamlConfigSettingsSource(settings_cls))
        return sources


def load_settings(file: Path | None = None, **flags: Any) -> Settings:
    """Return the settings, or raise SettingsError that names the setting and its source."""
    if file is not None and not file.is_file():
        raise SettingsError(f"{file}: no such settings file")

    class FileSettings(Settings):
        model_config = SettingsConfigDict(yaml_file=file)

    try:
        return (FileSettings if file is not None else Settings)(**flags)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
        where = f"{file}: " if file is not None else ""
        raise SettingsError("\n".join(f"{where}setting {line}" for line in lines)) from None
