from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.errors import Place, PolicyError
from stream_guard.policy.document import MAX_ALIASED, MAX_BYTES, MAX_DEPTH, MAX_NODES, MAX_TEXT, read_document

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def problems(source: str | bytes | Path, file: str = "p") -> list[tuple[int, int, str]]:
    try:
        found = read_document(source, file).problems
    except PolicyError as error:
        found = list(error.problems)
    return [(problem.place.line, problem.place.column, problem.code) for problem in found]


def message(source: str | bytes) -> str:
    with pytest.raises(PolicyError) as caught:
        read_document(source, "p")
    return str(caught.value)


def test_every_key_and_value_has_its_place() -> None:
    document = read_document("a: 1\nb:\n  - x\n  - {c: d}\n", "p.yaml")
    assert document.data == {"a": 1, "b": ["x", {"c": "d"}]}
    assert document.place("a") == Place("p.yaml", 1, 4)
    assert document.key_place("b") == Place("p.yaml", 2, 1)
    assert document.place("b", 1, "c") == Place("p.yaml", 4, 9)
    assert document.key_place("b", 1, "c") == Place("p.yaml", 4, 6)


def test_what_is_absent_stands_where_its_nearest_ancestor_does() -> None:
    document = read_document("a:\n  b: {c: 1}\n", "p")
    assert document.place("a", "b", "nope", 3, "deeper") == document.place("a", "b")
    assert document.key_place("a", "x") == document.key_place("a")


def test_json_may_be_laid_out_with_tabs_and_keeps_its_places() -> None:
    text = '\t{\r\n\t\t"a" :\t[1, {\n"b":\t"x"}]\n}\n'
    document = read_document(text, "p.json")
    assert document.data == {"a": [1, {"b": "x"}]}
    assert document.place("a", 1, "b") == Place("p.json", 3, 6)
    assert read_document(text, "no suffix").data == document.data


def test_json_escapes_are_joined_into_one_character() -> None:
    assert read_document(r'{"a": "\ud83d\ude00\n"}', "p.json").data == {"a": "\U0001f600\n"}


def test_flow_style_yaml_is_not_mistaken_for_broken_json() -> None:
    assert read_document("{a: 1, b: [x, y]}  # a comment", "p").data == {"a": 1, "b": ["x", "y"]}


def test_plain_yaml_words_mean_what_yaml_1_2_says() -> None:
    text = "[yes, no, on, 2024-01-01, 0o17, 0x1F, 012, 1e3, .5, -0, ~, True, 1_000, '5', =, 12:30]"
    expected = ["yes", "no", "on", "2024-01-01", 15, 31, 12, 1000.0, 0.5, 0, None, True, "1_000", "5", "=", "12:30"]
    assert read_document(text, "p").data == expected


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert read_document(b"\xef\xbb\xbfa: 1", "p").data == {"a": 1}


@given(values)
def test_json_reads_back_as_what_was_written(value: object) -> None:
    assert read_document(json.dumps({"v": value}), "p.json").data == {"v": value}


@given(values)
def test_json_is_yaml_as_far_as_yaml_goes(value: object) -> None:
    text = json.dumps({"v": value}, ensure_ascii=False)
    if text.isprintable():
        assert read_document(f"# no JSON\n{text}", "p.yaml").data == {"v": value}


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_raise_anything_but_a_policy_error(content: bytes) -> None:
    for file in ("p.yaml", "p.json", "p"):
        problems(content, file)


@given(st.text(st.sampled_from(list("{}[]:,-?&*!|>'\"%@`# \n\tab01.<")), max_size=60))
def test_no_punctuation_raises_anything_but_a_policy_error(text: str) -> None:
    for file in ("p.yaml", "p.json", "p"):
        for line, column, _ in problems(text, file):
            assert line >= 1
            assert column >= 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3", (3, 1, "SG103")),
        ('{"a": 1,\n "a": 2}', (2, 2, "SG103")),
        ("a:\n\t- x", (2, 1, "SG102")),
        ("a: [1, 2", (1, 9, "SG102")),
        ("a: b: c", (1, 5, "SG102")),
        ("- a\nb: 1", (2, 1, "SG102")),
        ("a: 1\n---\nb: 1", (2, 1, "SG102")),
        ("%YAML 1.1\n---\na: yes", (2, 1, "SG102")),
        ("a: \x01", (1, 4, "SG102")),
        ("x: 1\n5: y", (2, 1, "SG119")),
        ("true: y", (1, 1, "SG119")),
        ("? [a, b]\n: c", (1, 3, "SG119")),
        ("a: .nan", (1, 4, "SG119")),
        ("a: -.inf", (1, 4, "SG119")),
        ('{"a": NaN}', (1, 7, "SG119")),
        ('{"a": 1e999}', (1, 7, "SG119")),
        ("a: 1e999", (1, 4, "SG119")),
        ("a: 9223372036854775808", (1, 4, "SG119")),
        ("a: " + "9" * 5000, (1, 4, "SG119")),
        (r'{"a": "\ud800"}', (1, 7, "SG119")),
        (r'a: "\ud83d\ude00"', (1, 4, "SG119")),
        ("a: !!python/object/apply:os.system [echo]", (1, 4, "SG119")),
        ("a: !secret x", (1, 4, "SG119")),
        ('a:\n  b: 1\n  c: "\\UFFFFFFFF"', (3, 3, "SG102")),
        ("a: *nowhere", (1, 4, "SG121")),
        ("a: &a\n  b: *a", (2, 6, "SG121")),
        ("", (1, 1, "SG118")),
        ("# only a comment\n", (1, 1, "SG118")),
        ("[" * 100_000, (1, MAX_DEPTH + 1, "SG120")),
        ("- " * 100_000, (1, 2 * MAX_DEPTH + 1, "SG120")),
        ("a: " + "x" * (MAX_TEXT + 1), (1, 4, "SG120")),
    ],
)
def test_what_a_policy_cannot_hold_is_a_problem_at_its_place(text: str, expected: tuple[int, int, str]) -> None:
    assert problems(text) == [expected]


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ('{"a": 1,}', 9),
        ('{"a": 01}', 7),
        ("{'a': 1}", 2),
        ('{"a" 1}', 6),
        ('{"a": 1} x', 10),
        ('["a" "b"]', 6),
        ('{"a": trux}', 7),
        ('{"a": 1', 8),
        ('{"a": "x\ny"}', 7),
        ('{"a": "\\x"}', 7),
        ("[1, , 2]", 5),
        ("[1]]", 4),
        ("{]", 2),
        ('{"a":}', 6),
        ("[:]", 2),
        ("{1: 2}", 2),
        ("{{}: 1}", 2),
        ("[1 [2]]", 4),
    ],
)
def test_json_files_are_read_strictly(text: str, column: int) -> None:
    assert problems(text, "p.json") == [(1, column, "SG102")]


def test_reading_goes_on_after_problems_that_allow_it() -> None:
    text = "a: 1\na: 2\n3: x\nb: .inf\nc: !t x\nd: *e\n"
    assert [line for line, _, _ in problems(text)] == [2, 3, 4, 5, 6]


def test_tabs_are_called_tabs() -> None:
    assert "tabs" in message("a:\n\tb: 1")


def test_merge_keys_take_over_what_the_mapping_does_not_say() -> None:
    text = "one: &one {a: 1, b: 2}\ntwo: &two {b: 3, c: 4}\nall:\n  <<: [*one, *two]\n  a: 5\n"
    document = read_document(text, "p")
    assert document.data["all"] == {"a": 5, "b": 2, "c": 4}
    assert document.place("all", "c") == Place("p", 2, 21)
    assert problems("a:\n  <<: 5\n") == [(2, 7, "SG106")]
    assert read_document('{"<<": 5}', "p.json").data == {"<<": 5}
    assert read_document("a: <<\nb: [<<]\n'<<': 1\n", "p.yaml").data == {"a": "<<", "b": ["<<"], "<<": 1}
    assert read_document("a: &a {x: 1}\nb: {&m <<: *a}\nc: *m\n", "p.yaml").data["c"] == "<<"


def test_aliases_cannot_grow_without_bound() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (problem,) = problems("\n".join(lines))
    assert problem[2] == "SG120"
    assert f"{MAX_ALIASED:,}" in message("\n".join(lines))


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (MAX_BYTES + 1))
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("name: xyz\u00e9\n".encode("latin-1"))
    assert problems(tmp_path / "missing.yaml") == [(0, 0, "SG101")]
    assert problems(tmp_path) == [(0, 0, "SG101")]
    assert problems(tmp_path / ("x" * 5000)) == [(0, 0, "SG101")]
    assert problems(large) == [(0, 0, "SG101")]
    assert problems(latin) == [(1, 10, "SG101")]
    assert problems("name: x\n".encode("utf-16")) == [(1, 1, "SG101")]


@pytest.mark.parametrize("limit", [2_500, pytest.param(MAX_NODES, marks=pytest.mark.slow)])
def test_a_file_of_too_many_values_is_cut_off(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_guard.policy.document.MAX_NODES", limit)
    assert problems("[" + "1," * 4 * limit + "1]") == [(1, 2 * limit, "SG120")]


def test_messages_never_carry_control_characters() -> None:
    document = read_document('{"\\u001b[31m": 1, "\\u001b[31m": 2}', "p")
    assert [problem.message.isprintable() for problem in document.problems] == [True]
    assert "\\u001b[31m" in document.problems[0].message
