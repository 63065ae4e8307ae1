"""Every block of the pages is run, in the order in which a reader would, and prints what the page says."""

from __future__ import annotations

from difflib import unified_diff
from functools import cache
from pathlib import Path

import pytest

from tests.docs.reader import make_folder, run_script
from tests.docs.steps import Step, is_as_shown, outputs_of, script_of, steps_of

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/install.md",
    "docs/starting.md",
    "docs/tutorial.md",
    "docs/policy.md",
    "docs/guard.md",
    "docs/compliance.md",
    "docs/contract.md",
    "docs/contract_run.md",
    "docs/events.md",
    "docs/running.md",
    "docs/diff.md",
    "docs/replay.md",
    "docs/langfuse.md",
    "docs/claude-code.md",
    "docs/opentelemetry.md",
    "docs/ci.md",
    "docs/shell.md",
)


@cache
def steps(page: str) -> list[Step]:
    return steps_of((ROOT / page).read_text())


_OUTCOMES: dict[str, list[tuple[str, int]]] = {}


@pytest.fixture
def outcomes(page: str, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int]]:
    """What each step of a page printed, and its exit code; a page is run whole, once."""
    if page not in _OUTCOMES:
        folder = tmp_path_factory.mktemp(Path(page).stem) / "stream_guard"
        folder.mkdir()
        make_folder(ROOT, folder, fresh=page == "README.md")
        _OUTCOMES[page] = outputs_of(run_script(script_of(steps(page)), folder))
    return _OUTCOMES[page]


# This one sets everything up, and checks and tests what its reader has written.
_LONG = {"docs/tutorial.md": (pytest.mark.long,)}

# Pages run side by side: all blocks of one page in one process, each page in any.
CASES = [
    pytest.param(
        page,
        number,
        id=f"{page}:{step.line} {step.shown.splitlines()[0][:60]}",
        marks=[pytest.mark.xdist_group(page), *_LONG.get(page, ())],
    )
    for page in PAGES
    for number, step in enumerate(steps(page))
]


@pytest.mark.parametrize(("page", "number"), CASES)
def test_block_does_what_the_page_says(page: str, number: int, outcomes: list[tuple[str, int]]) -> None:
    step = steps(page)[number]
    assert number < len(outcomes), f"{page}:{step.line}: the shell never came this far"
    printed, code = outcomes[number]
    assert code == 0 or step.may_fail, f"{page}:{step.line}: {step.shown} ended with {code}:\n{printed}"
    if step.check is not None:
        step.check()
    if step.prints is not None and not is_as_shown(printed, step.prints):
        shown, found = step.prints.splitlines(), printed.strip("\n").splitlines()
        pytest.fail("\n".join(unified_diff(shown, found, f"{page}:{step.line}", "what it printed", lineterm="")))


@pytest.mark.parametrize("page", PAGES)
def test_page_has_something_to_run(page: str) -> None:
    assert steps(page)


def test_output_that_differs_is_noticed() -> None:
    assert is_as_shown("one\ntwo\n", "one\n...\n")
    assert is_as_shown("one\ntwo\nthree\n", "one\n...\nthree\n")
    assert is_as_shown("at 127.0.0.1:4711\n", "at 127.0.0.1:9464\n")
    assert not is_as_shown("one\ntwo\n", "one\n")
    assert not is_as_shown("one\ntwo\n", "...\none\n")
    assert not is_as_shown("", "one\n")


def test_step_that_fails_keeps_its_code_for_the_next() -> None:
    page = "```console\n$ false\n$ echo $?\n1\n```\n"
    first, second = steps_of(page)
    assert first.may_fail
    assert not second.may_fail


def test_block_that_nobody_would_run_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody would run a block of perl"):
        steps_of("```perl\nprint 1\n```\n")
