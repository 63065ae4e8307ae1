"""The settings of plugins: which of those that are installed may be loaded."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from stream_guard.settings.values import Names, Section, split_list


class PluginSettings(Section):
    """Which installed plugins may be loaded."""

    allow: Annotated[tuple[str, ...] | None, NoDecode, BeforeValidator(split_list)] = Field(
        default=None, description="names to load; None loads every installed one and says which"
    )
    block: Names = Field(default=(), description="names never to load")
