"""The text of every response is JSON that fits a schema."""

from __future__ import annotations

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.json_schema import Schema, SchemaFile, TextError

_AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


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


class MustMatchJsonSchema(sg.Rule[MustMatchJsonSchemaParams, sg.NoState]):
    """The text of every response must be JSON, strictly, and fit a JSON Schema.

    A response has at most one hit, at its most telling error. A response without text is a hit too: gate the rule
    with ``stop_reason == end_turn`` where responses may only call tools. Formats are not checked.
    """

    kind = "must_match_json_schema"
    examples = (
        sg.Example(
            claim="a wrong field is a hit, and so is what is not JSON",
            params={"schema": _AMOUNT},
            trace=[{"turn": '{"amount": "20"}'}, {"turn": "20"}, {"turn": '{"amount": NaN}'}],
            hits=[0, 1, 2],
        ),
        sg.Example(
            claim="an answer that fits is silent",
            params={"schema": _AMOUNT},
            trace=[{"turn": ' {"amount": 20} '}],
            hits=[],
        ),
    )

    def __init__(self, params: MustMatchJsonSchemaParams) -> None:
        super().__init__(params)
        schema = params.inline or params.schema_path
        if schema is None:
            raise AssertionError("the parameters were not validated")
        self._schema: Schema = schema

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Validate the text."""
        try:
            self._schema.judge(turn.text)
        except TextError as error:
            return sg.Hit(f"{error.path}: {error}", {"path": error.path, "reason": str(error)})
        return None
