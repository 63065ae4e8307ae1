"""What is made from the code is what the code makes today."""

from __future__ import annotations

from pathlib import Path

import pytest

import stream_guard as sg
from stream_guard.registry import Registry, build_registry
from tests.docs.catalogue import catalogue
from tests.docs.generate import PAGES, generated, registry_of_packs, replace
from tests.docs.tree import first_line


@pytest.fixture(scope="module")
def registry() -> Registry:
    return registry_of_packs()


@pytest.mark.parametrize("page", PAGES)
def test_page_is_what_the_code_makes(page: str, registry: Registry, root: Path) -> None:
    committed = (root / page).read_text().splitlines()
    assert committed == generated(page, registry).splitlines(), "run `python -m tests.docs.generate`, and read the diff"


def test_catalogue_shows_a_new_kind_with_its_parameters_and_cases() -> None:
    class Shout(sg.Rule[sg.Params, sg.NoState]):
        """Nobody must shout."""

        kind = "no_shouting"
        examples = (
            sg.Example(claim="capitals are a hit", params={}, trace=[{"turn": "STOP"}], hits=[0]),
            sg.Example(claim="words are fine", params={}, trace=[{"turn": "stop"}]),
        )

        def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
            return sg.Hit("shouting") if turn.text.isupper() else None

    class Pack:
        @sg.hookimpl
        def stream_guard_rules(self) -> list[sg.RuleType]:
            return [Shout]

    page = catalogue(build_registry(extra=[Pack()]))
    assert "| [`no_shouting`](#no_shouting) | Nobody must shout. |" in page
    assert "Looks at turns. Speaks at the event. Keeps no state." in page
    assert "*Hit*: capitals are a hit.\n\n```yaml\nparams: {}\ntrace:\n  - {turn: STOP}  # hit\n```" in page
    assert "*No hit*: words are fine.\n\n```yaml\nparams: {}\ntrace:\n  - {turn: stop}\n```" in page


def test_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="generated: metrics"):
        replace("# A page\n", "metrics", "| a | b |")


def test_module_without_a_docstring_is_refused(tmp_path: Path) -> None:
    module = tmp_path / "silent.py"
    module.write_text("x = 1\n")
    with pytest.raises(ValueError, match="has no docstring"):
        first_line(module)
