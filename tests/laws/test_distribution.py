"""The distribution: one name for it everywhere, releases that fit their tag, workflows with few rights."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import stream_guard
from deploy.release import notes_of
from stream_guard.distribution import COMMAND, NAME, install_line

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Where a line tells somebody to install something: pages, hints in the code, workflows, examples.
TELLING = ("*.md", "*.py", "*.yml", "*.yaml", "*.toml", "*.sh", "Makefile", "Dockerfile")
# The name before 0.2, where something is installed by it: after pip, uv or pipx, with an extra, or as a requirement.
OLD = re.compile(
    r"""(?<!un)(?:install|add|download|--spec)\s+(?:-\S+\s+)*["']?stream[-_]guard(?![\w./-])"""
    r"""|(?<![\w-])stream-guard\[|["']stream-guard\s*[<>=~!]"""
)


def tracked(*patterns: str) -> list[Path]:
    done = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()] or sorted(
        path for pattern in patterns for path in ROOT.rglob(pattern) if not {".venv", ".cache"} & {*path.parts}
    )


def test_the_code_and_the_index_call_it_by_one_name() -> None:
    assert PROJECT["name"] == NAME
    assert list(PROJECT["scripts"]) == [COMMAND]


def test_no_line_installs_it_by_its_old_name() -> None:
    told = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in tracked(*TELLING)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if OLD.search(line) and path != Path(__file__)
    ]
    assert told == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install stream-guard",
        "pip install 'stream-guard[kafka]'",
        'pip install "stream-guard[kafka]"',
        "uv tool install --force stream-guard",
        "install stream-guard[judge]",
        'dependencies = ["stream-guard>=0.1"]',
    ],
)
def test_the_old_name_would_be_found(line: str) -> None:
    assert OLD.search(line)
    assert not OLD.search(line.replace("stream-guard", NAME))


def test_every_extra_that_a_hint_names_is_there() -> None:
    extras = set(PROJECT["optional-dependencies"])
    named = set()
    for path in tracked("*.py", "*.md"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"install_line\([\"']([a-z-]+)[\"']\)", text))
        named |= {extra for found in re.findall(rf"{NAME}\[([a-z,-]+)\]", text) for extra in found.split(",")}
    assert {"serve", "kafka", "archives"} <= named
    assert named <= extras
    assert install_line("serve") == f"pip install '{NAME}[serve]'"


def test_the_page_about_installing_lists_every_extra() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(set(PROJECT["optional-dependencies"]) - {"dev", "docs"})


def test_a_name_that_is_another_now_works_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stream_guard._RENAMED, "assess", ("evaluate", "0.4"))
    with pytest.warns(DeprecationWarning, match=r"stream_guard\.assess is stream_guard\.evaluate now; 0\.4") as told:
        assert stream_guard.assess is stream_guard.evaluate  # type: ignore[attr-defined]
    assert told[0].filename == __file__  # so that a reader finds the line to change
    with warnings.catch_warnings(action="error"):
        assert stream_guard.evaluate is not None


def test_every_name_that_warns_leads_to_a_public_one_and_goes_in_a_later_version() -> None:
    now = tuple(map(int, PROJECT["version"].split(".")[:2]))
    for old, (new, last) in stream_guard._RENAMED.items():
        assert old not in stream_guard.__all__
        assert new in stream_guard.__all__
        assert tuple(map(int, last.split("."))) > now, f"{old} was to go by now"
        assert f"`{old}`" in (ROOT / "docs" / "public.md").read_text()


CHANGELOG = "# Changelog\n\n## 0.3.0 - 2026-01-05\n\n- New.\n\n## 0.2.0 - 2025-12-01\n\n- Old.\n"


@pytest.fixture
def released(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.3.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_the_notes_of_a_release_are_its_section_of_the_changelog(released: Path) -> None:
    assert notes_of("v0.3.0", released) == "- New.\n"


@pytest.mark.parametrize(
    ("tag", "changelog", "said"),
    [
        ("v0.2.0", CHANGELOG, "the tag of that is v0.3.0"),
        ("0.3.0", CHANGELOG, "the tag of that is v0.3.0"),
        ("v0.3.0", CHANGELOG.replace(" - 2026-01-05", " (not released yet)"), "write the day of the release"),
        ("v0.3.0", CHANGELOG.replace("## 0.3.0 - 2026-01-05", "## Unreleased"), "no section ## 0.3.0"),
    ],
)
def test_a_tag_that_does_not_fit_makes_no_release(released: Path, tag: str, changelog: str, said: str) -> None:
    (released / "CHANGELOG.md").write_text(changelog)
    with pytest.raises(ValueError, match=said):
        notes_of(tag, released)


def test_the_changelog_begins_with_the_version_that_is_being_made() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == PROJECT["version"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_has_no_right_but_those_its_jobs_name(file: Path) -> None:
    workflow = YAML(typ="safe", pure=True).load(file)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert "permissions" in job, f"{name} would have none, or all of them"
        assert "timeout-minutes" in job
    written = {(name, right) for name, job in workflow["jobs"].items() for right in job["permissions"].items()}
    allowed = {
        "release.yml": {("publish", ("id-token", "write")), ("announce", ("contents", "write"))},
        "docs.yml": {("publish", ("id-token", "write")), ("publish", ("pages", "write"))},
    }
    assert {(name, right) for name, right in written if right[1] == "write"} == allowed.get(file.name, set())


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_an_action_is_named_by_its_digest_and_says_its_version(file: Path) -> None:
    used = re.findall(r"uses: (\S+)(.*)", file.read_text())
    assert used
    assert [name for name, _ in used if not re.search(r"@[0-9a-f]{40}$", name)] == []
    assert [name for name, note in used if not re.match(r" # v\d", note)] == []


def test_one_action_has_one_digest_in_all_workflows() -> None:
    used = {found for file in WORKFLOWS for found in re.findall(r"uses: (\S+@\S+)", file.read_text())}
    assert len(used) == len({name.partition("@")[0] for name in used})


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_what_a_workflow_runs_by_make_is_there(file: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = re.findall(r"run: make ([a-z-]+)", file.read_text())
    assert set(told) <= targets


# A shell in which a second of waiting takes a hundredth of one.
QUICK = """set -euo pipefail
. deploy/progress.sh
sleep() { command sleep 0.01; }
"""


def progress(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        ["bash", "-c", QUICK + line], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_work_that_takes_long_says_how_long_it_has_taken(tmp_path: Path) -> None:
    told = tmp_path / "told"
    done = progress(
        """work() { until grep -q '10 s so far' "$TOLD"; do command sleep 0.01; done; }
        with_progress "digging" work > "$TOLD" """,
        TOLD=str(told),
    )
    assert done.returncode == 0, done.stderr
    assert told.read_text().splitlines()[:3] == ["digging", "digging: 3 s so far", "digging: 10 s so far"]


def test_work_that_fails_ends_the_script_and_what_it_told_by() -> None:
    done = progress('work() { false; echo "went on"; }; with_progress "digging" work; echo "went on"')
    assert (done.returncode, done.stdout) == (1, "digging\n")
    asked = progress('with_progress "digging" false || echo "as asked: $?"')
    assert asked.stdout.splitlines() == ["digging", "as asked: 1"]


def test_progress_of_a_command_is_of_no_other_outcome() -> None:
    command = ["bash", "deploy/progress.sh", "digging", sys.executable, "-c", "raise SystemExit(7)"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 7
