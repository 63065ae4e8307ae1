"""How ``must_match_json_schema`` is written."""

from __future__ import annotations

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.json_schema import Schema, SchemaFile


class MustMatchJsonSchemaParams(sg.Params):
    """Parameters of ``must_match_json_schema``."""

    # pydantic has a method called `schema`, so the field has another name, which no policy may use.
    model_config = ConfigDict(validate_by_name=False, validate_by_alias=True)

    inline: Schema | None = Field(
        default=None, validation_alias="schema", serialization_alias="schema", description="the JSON Schema itself"
    )
    schema_path: SchemaFile | None = Field(
        default=None, description="or a JSON file that has it, relative to the policy file and not outside its folder"
    )

    @model_validator(mode="after")
    def _has_one(self) -> MustMatchJsonSchemaParams:
        if (self.inline is None) == (self.schema_path is None):
            raise PydanticCustomError("json_schema", 'write either "schema" or "schema_path", and only one of them')
        return self
