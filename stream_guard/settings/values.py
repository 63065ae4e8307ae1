"""What all sections of the settings are made of."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic_settings import NoDecode


class Section(BaseModel):
    """A group of settings; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def split_list(value: Any) -> Any:
    """Split a list that is written with commas, as in environment variables; read one that is written as JSON."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)  # what it raises is a ValueError, which pydantic reports
    return [part.strip() for part in value.split(",") if part.strip()]


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_list)]
