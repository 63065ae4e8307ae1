"""Texts are parsed strictly and judged as jsonschema would, and no text can hurt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from stream_guard_rules.must_match_json_schema import MustMatchJsonSchema, MustMatchJsonSchemaParams
from stream_guard_rules.shared.json_schema import MAX_DEPTH, Schema, SchemaCost, TextError, parse

from stream_guard import Json
from stream_guard.testing import run_rule

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, -2.5]),
    st.sampled_from(["", "a", "ab", "b1"]),
)
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=3)
    ),
    max_leaves=6,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def _object_of(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def _schemas(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    some = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    return _object_of(
        {
            "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=2, unique=True)),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "minimum": st.integers(-2, 2),
            "exclusiveMaximum": st.sampled_from([0, 1, 1.5]),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 2),
            "pattern": st.sampled_from(["^a", "b$", "[0-9]", "a|b"]),
            "properties": named,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
            "additionalProperties": inner,
            "propertyNames": inner,
            "required": st.lists(st.sampled_from(["a", "b"]), unique=True, max_size=2),
            "minProperties": st.integers(0, 2),
            "dependentRequired": st.just({"a": ["b"]}),
            "items": inner,
            "prefixItems": some,
            "contains": inner,
            "minItems": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "unevaluatedProperties": inner,
        }
    )


NAMED_TYPES = TYPES.map(lambda name: {"type": name})
SCHEMAS: st.SearchStrategy[Json] = st.recursive(st.one_of(st.booleans(), NAMED_TYPES), _schemas, max_leaves=5)
SCHEMAS_WITHOUT_FALSE: st.SearchStrategy[Json] = st.recursive(NAMED_TYPES, _schemas, max_leaves=5)


def judged(schema: Schema, text: str) -> str | None:
    """Return the path of the error, or None."""
    try:
        schema.judge(text)
    except TextError as error:
        return error.path
    return None


@given(SCHEMAS, VALUES)
def test_verdict_is_the_one_of_jsonschema(schema: Json, value: Json) -> None:
    reference = jsonschema.Draft202012Validator(schema)
    assert (judged(Schema(schema), json.dumps(value)) is None) is reference.is_valid(value)


# Below a `false` the two differ: jsonschema names the list, we name the item that may not be there.
@given(SCHEMAS_WITHOUT_FALSE, VALUES)
def test_path_is_the_one_of_best_match(schema: Json, value: Json) -> None:
    # A property that additionalProperties refuses is unevaluated to one of the two, and refused once to the other.
    written = json.dumps(schema)
    assume("additionalProperties" not in written or "unevaluatedProperties" not in written)
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(value))
    wanted = None if error is None else ".".join(map(str, error.absolute_path)) or "<root>"
    assert judged(Schema(schema), json.dumps(value)) == wanted


@given(VALUES)
def test_what_json_writes_is_read(value: Json) -> None:
    assert parse(json.dumps(value)) == value


@given(st.text(alphabet='{}[]",:0123456789.eE+-\\ntrufalsNI \t\ud800', max_size=12))
@settings(max_examples=5 * settings().max_examples)
def test_nothing_is_read_that_json_refuses(text: str) -> None:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        value = parse(text)
    except TextError:
        return
    assert json.loads(text, parse_constant=refuse) == value


@pytest.mark.parametrize("opening", ["[", '{"a":'], ids=["lists", "objects"])
def test_depth_has_a_limit(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    schema = Schema({"items": {"$ref": "#"}, "additionalProperties": {"$ref": "#"}})
    assert judged(schema, opening * MAX_DEPTH + "1" + closing * MAX_DEPTH) is None
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(TextError, match=f"deeper than {MAX_DEPTH} levels"):
            schema.judge(opening * depth + "1" + closing * depth)


def test_schema_that_is_too_deep_is_refused() -> None:
    document: Json = {}
    for _ in range(2000):
        document = {"not": document}
    with pytest.raises(ValidationError, match="nested too deeply"):
        MustMatchJsonSchemaParams.model_validate({"schema": document})


def test_brackets_beside_each_other_are_not_depth() -> None:
    assert judged(Schema({}), json.dumps([[]] * 10_000)) is None


def test_no_pattern_runs_for_ever() -> None:
    schema = Schema(
        {"type": "object", "patternProperties": {"^(a+)+$": {}}, "properties": {"b": {"pattern": "^(a|a)*$"}}}
    )
    text = "a" * 50_000 + "!"
    assert judged(schema, json.dumps({"b": text, text: 1})) == "b"


def test_a_long_list_of_errors_is_cut_short() -> None:
    path = judged(Schema({"items": {"type": "string"}}), json.dumps([1] * 500_000))
    assert path == "0"


def test_evidence_is_short() -> None:
    schema = Schema({"additionalProperties": {"type": "number"}})
    with pytest.raises(TextError) as caught:
        schema.judge(json.dumps({"x" * 1000: "y" * 1000}))
    assert max(len(str(caught.value)), len(caught.value.path)) <= 200


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"type": "nope"}, "not a valid JSON Schema: at type"),
        ({"properties": {"a": {"minimum": "x"}}}, "at properties.a.minimum"),
        ([], "a JSON Schema is an object, or true or false; this is a list"),
        ("x", "a JSON Schema is an object"),
        ({"$ref": "https://example.com/schema.json"}, "https://example.com/schema.json.*nothing is fetched"),
        ({"items": {"$ref": "other.json"}}, "other.json.*nothing is fetched"),
        ({"$defs": {"unused": {"$ref": "http://localhost:1/x"}}}, "nothing is fetched"),
        ({"$ref": "#/$defs/missing"}, r"Pointer '/\$defs/missing' does not exist"),
        ({"$schema": "https://example.com/my-draft"}, "Unknown meta-schema"),
        ({"pattern": "("}, "pattern"),
        ({"pattern": "(?=a)b"}, "linear time; leave out look-around"),
        ({"patternProperties": {"(a)\\1": {}}}, "linear time"),
    ],
)
def test_unusable_schema_is_refused_at_load(document: Json, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        MustMatchJsonSchemaParams.model_validate({"schema": document})


@pytest.mark.parametrize("params", [{}, {"schema": {}, "schema_path": "a.json"}, {"inline": {}}])
def test_exactly_one_schema_is_asked_for(params: dict[str, Json], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ValidationError):
        MustMatchJsonSchemaParams.model_validate(params, context={"policy_folder": str(tmp_path)})


def test_schema_file_is_read_from_the_folder_of_the_policy(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "refund.json").write_text('{"required": ["amount"]}')
    hits = run_rule(
        MustMatchJsonSchema,
        {"schema_path": "schemas/refund.json"},
        [{"turn": "{}"}, {"turn": '{"amount": 1}'}],
        context={"policy_folder": str(tmp_path)},
    )
    assert [at for at, _ in hits] == [0]


def _link(folder: Path) -> None:
    (folder / "link.json").symlink_to(folder.parent / "outside.json")


@pytest.mark.parametrize(
    ("name", "prepare", "why"),
    [
        ("missing.json", None, "cannot be read: No such file"),
        ("folder", lambda folder: (folder / "folder").mkdir(), "cannot be read: Is a directory"),
        ("../outside.json", None, "leads out of the folder"),
        ("/outside.json", None, "leads out of the folder"),
        ("link.json", _link, "leads out of the folder"),
        ("bad.json", lambda folder: (folder / "bad.json").write_text("{"), "is not JSON"),
        ("deep.json", lambda folder: (folder / "deep.json").write_text("[" * 100_000), "is not JSON"),
        ("nope.json", lambda folder: (folder / "nope.json").write_text('{"type": "nope"}'), "not a valid JSON Schema"),
        ("big.json", lambda folder: (folder / "big.json").write_text(" " * 2**20 + "{}"), "is larger than"),
        ("", None, "at least 1 character"),
    ],
)
def test_wrong_schema_file_is_refused_at_load(
    name: str, prepare: Callable[[Path], object] | None, why: str, tmp_path: Path
) -> None:
    folder = tmp_path / "policy"
    folder.mkdir()
    (tmp_path / "outside.json").write_text("{}")
    if prepare is not None:
        prepare(folder)
    with pytest.raises(ValidationError, match=why):
        MustMatchJsonSchemaParams.model_validate({"schema_path": name}, context={"policy_folder": str(folder)})


@pytest.mark.parametrize("context", [None, {}, {"policy_folder": None}])
def test_schema_file_needs_a_policy_file(context: dict[str, None] | None) -> None:
    with pytest.raises(ValidationError, match="write the schema inline"):
        MustMatchJsonSchemaParams.model_validate({"schema_path": "a.json"}, context=context)


def test_params_are_written_with_the_schema_itself(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"type": "object"}')
    read = MustMatchJsonSchemaParams.model_validate({"schema_path": "a.json"}, context={"policy_folder": str(tmp_path)})
    assert read.model_dump(by_alias=True, exclude_none=True) == {"schema_path": {"type": "object"}}
    given_inline = MustMatchJsonSchemaParams.model_validate({"schema": {"type": "object"}})
    assert given_inline.model_dump(by_alias=True, exclude_none=True) == {"schema": {"type": "object"}}
    assert given_inline.inline == read.schema_path


def chain(levels: int, link: Callable[[str], Json]) -> Json:
    """Return a schema of parts that each refer to the one before."""
    parts: dict[str, Json] = {"p0": {"const": 1}}
    parts |= {f"p{level}": link(f"#/$defs/p{level - 1}") for level in range(1, levels + 1)}
    return {"$defs": parts, "$ref": f"#/$defs/p{levels}"}


def twice(way: str) -> Callable[[str], Json]:
    return lambda target: {way: [{"$ref": target}, {"$ref": target}]}


def child_twice(target: str) -> Json:
    return {"allOf": [{"properties": {"a": {"$ref": target}}}] * 2}


def if_then(target: str) -> Json:
    return {"if": {"$ref": target}, "then": {"$ref": target}, "else": {"$ref": target}}


EXPLODING = [*(twice(way) for way in ("allOf", "anyOf", "oneOf")), child_twice, if_then]


@pytest.mark.parametrize("link", EXPLODING)
def test_a_schema_that_explodes_is_refused_when_it_is_loaded(link: Callable[[str], Json]) -> None:
    with pytest.raises(ValidationError, match="the JSON Schema explodes"):
        MustMatchJsonSchemaParams.model_validate({"schema": chain(40, link)})
    assert not SchemaCost(chain(6, link)).explodes


def test_honest_schemas_that_refer_to_themselves_are_loaded() -> None:
    tree: Json = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "all": {"items": {"$ref": "#"}}}}
    Schema(tree).judge('{"left": ' * 100 + "{}" + "}" * 100)
    Schema(jsonschema.Draft7Validator.META_SCHEMA).judge('{"type": "object"}')
    wide = {
        "properties": {f"p{n}": {"properties": {f"q{m}": {"type": "string"} for m in range(20)}} for n in range(60)}
    }
    Schema(wide).judge("{}")


def test_a_text_that_fails_in_many_ways_is_refused_without_walking_them() -> None:
    again = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    grammar = Schema({"anyOf": [again, dict(again), {"const": 1}]})
    grammar.judge('{"a": ' * 60 + "1" + "}" * 60)
    with pytest.raises(TextError, match="does not fit the schema"):
        grammar.judge('{"a": ' * 60 + "2" + "}" * 60)
    with pytest.raises(TextError, match=r"is not valid under any|was expected|is not of type"):
        grammar.judge('{"a": 2}')
