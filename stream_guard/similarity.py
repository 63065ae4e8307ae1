"""Similarity measures for texts, by the names that plugins give them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from stream_guard.judge.model import Json

Similarity: TypeAlias = Callable[[str, str], float]
"""How alike two texts are: 0 for nothing in common, 1 for the same. The same texts give the same number, always."""

SIMILARITIES: Final = "similarities"  # the key under which the measures of plugins reach the validators


class Measure:
    """A plugin's measure, found by its name when a policy is loaded."""

    __slots__ = ("_similarity", "name")

    def __init__(self, name: str, similarity: Similarity) -> None:
        self.name = name
        self._similarity = similarity

    def __call__(self, first: str, second: str) -> float:
        """Return how alike the texts are, between 0 and 1; raises ValueError where the measure gives no number."""
        value = float(self._similarity(first, second))
        if math.isnan(value):
            raise ValueError(f'the measure "{self.name}" gave no number')
        return min(1.0, max(0.0, value))

    def __repr__(self) -> str:
        return f"Measure({self.name!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        def build(value: Json, info: ValidationInfo) -> Measure:
            if isinstance(value, Measure):
                return value
            known: Mapping[str, Similarity] = (info.context or {}).get(SIMILARITIES, {})
            if not isinstance(value, str) or value not in known:
                names = ", ".join(known) or "none, no plugin brings one"
                raise PydanticCustomError("measure", "no measure of this name; known: {names}", {"names": names})
            return cls(value, known[value])

        return core_schema.with_info_plain_validator_function(
            build, serialization=core_schema.plain_serializer_function_ser_schema(lambda measure: measure.name)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string"}
