"""Rules about structured answers."""

from __future__ import annotations

import stream_guard as sg
from stream_guard_rules.deriving import mypyc_attr
from stream_guard_rules.json_schema import Schema, TextError
from stream_guard_rules.shapes.schema import MustMatchJsonSchemaParams

_AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


@mypyc_attr(allow_interpreted_subclasses=True)
class MustMatchJsonSchema(sg.Rule[MustMatchJsonSchemaParams, sg.NoState]):
    """The text of every response must be JSON, strictly, and fit a JSON Schema.

    One hit for each response, at the field that says most. A response without text is a hit too: gate the
    rule with ``stop_reason == end_turn`` where responses may only call tools. Formats are not checked.
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
        """Hold the text against the schema."""
        try:
            self._schema.judge(turn.text)
        except TextError as error:
            return sg.Hit(f"{error.path}: {error}", {"path": error.path, "reason": str(error)})
        return None
