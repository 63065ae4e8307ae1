"""What a user installs: the core, the packs and their types, found through metadata, and nothing else."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

PACKAGES = (
    "stream_guard",
    "stream_guard_rules",
    "stream_guard_formats",
    "stream_guard_sinks",
    "stream_guard_dialects",
    "stream_guard_judge",
    "stream_guard_axes",
    "stream_guard_diff",
    "stream_guard_contract",
    "stream_guard_compliance",
    "stream_guard_shell",
    "stream_guard_tokens",
)
LOCKS = ("requirements.lock", "deploy/requirements.lock", "deploy/run.lock", "deploy/action.lock", "deploy/build.lock")
WITH_PIP = (*LOCKS, "deploy/installer.lock")


@pytest.fixture(scope="session")
def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9.-]*)==(\S+)", lock.read_text(), re.MULTILINE))


def test_wheel_holds_the_core_and_the_packs_and_no_other_package(contents: list[str]) -> None:
    tops = {name.split("/")[0] for name in contents}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_says_that_it_is_typed(package: str, contents: list[str]) -> None:
    assert f"{package}/py.typed" in contents


def test_wheel_holds_every_file_of_the_packages(root: Path, contents: list[str]) -> None:
    files = {
        path.relative_to(source).as_posix()
        for source in (root, root / "plugins")
        for package in PACKAGES
        for path in (source / package).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".c", ".so")  # C is for the compiled build
    }
    assert "stream_guard/__init__.py" in files
    assert files <= set(contents)
    assert [file for file in contents if file.endswith((".c", ".so"))] == []


def test_packs_and_command_are_found_through_metadata(wheel: Path, contents: list[str]) -> None:
    entry_points = configparser.ConfigParser()
    with zipfile.ZipFile(wheel) as archive:
        entry_points.read_string(
            archive.read(next(name for name in contents if name.endswith("entry_points.txt"))).decode()
        )
    assert dict(entry_points["console_scripts"]) == {"stream-guard": "stream_guard.cli.process:main"}
    assert sorted(entry_points["stream_guard"].values()) == sorted(set(PACKAGES) - {"stream_guard"})


INSTALLED = """
import sys
from pathlib import Path
from typer.testing import CliRunner
import stream_guard
from stream_guard.cli.app import app
assert Path(stream_guard.__file__).is_relative_to({site!r}), stream_guard.__file__
for arguments in {commands!r}:
    outcome = CliRunner().invoke(app, arguments)
    assert outcome.exit_code == 0, (arguments, outcome.output, outcome.exception)
    print(arguments[0], len(outcome.stdout))
"""


@pytest.mark.long
def test_what_is_in_the_wheel_is_enough_to_begin(wheel: Path, tmp_path: Path) -> None:
    """Unpacked as pip does, before the checkout on the path, in a folder without any file of the project."""
    site, folder = tmp_path / "site", tmp_path / "empty"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    folder.mkdir()
    commands = [
        ["demo", "--sessions", "4", "--keep", "traces"],
        ["init", "traces/events.jsonl", "--into", "guard"],
        ["init", "--into", "sample", "--compose"],
        ["check", "sample/events.jsonl", "--policy", "sample/policy.yaml", "--settings", "sample/settings.yaml"],
        ["packs", "list"],
        ["packs", "show", "coding_agent"],
        ["schema", "policy"],
        ["plugins"],
    ]
    program = INSTALLED.format(site=str(site), commands=commands)
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split() for line in done.stdout.splitlines() if line.count(" ") == 1)
    assert {"demo", "init", "check", "packs", "schema", "plugins"} <= set(said)


# What only extras bring, by the name under which it is imported.
OF_EXTRAS = (
    *("apprise", "fastavro", "faust", "google", "grpc", "httpx", "hypothesis", "jinja2", "junitparser", "kafka"),
    *("langchain", "mcp", "numpy", "opentelemetry", "psycopg", "pyarrow", "rapidfuzz", "sarif_pydantic", "starlette"),
    *("uvicorn", "uvloop", "zstandard"),
)


@pytest.mark.parametrize(
    "line",
    [
        "run trace.json --policy policy.yaml",
        "check trace.json --policy policy.yaml",
        "serve --policy policy.yaml",
        "run kafka://127.0.0.1:9/in --policy policy.yaml",
        "run otlp://127.0.0.1:0 --policy policy.yaml",
        "check trace.parquet --policy policy.yaml",
        "alerts list --history postgresql://127.0.0.1:9/x",
        "diff trace.json trace.json",
    ],
)
def test_without_extras_a_command_does_its_work_or_says_which_one_it_needs(line: str, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("rules: [{id: confirm, kind: must_call, params: {tool: confirm}}]")
    (tmp_path / "trace.json").write_text('[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]')
    (tmp_path / "trace.parquet").write_bytes(b"PAR1")
    code = f"import sys; sys.modules.update(dict.fromkeys({OF_EXTRAS!r}))"
    code += "; from stream_guard.cli.app import run_command_line; run_command_line()"
    command = [sys.executable, "-P", "-c", code, *line.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "2 events" in said or "agent-stream-guard[" in said


def test_wheel_carries_the_licence(wheel: Path, contents: list[str]) -> None:
    licence = next(name for name in contents if name.endswith("/LICENSE"))
    with zipfile.ZipFile(wheel) as archive:
        assert "Apache License" in archive.read(licence).decode()


@pytest.mark.parametrize("lock", WITH_PIP)
def test_lock_names_no_address_and_no_folder(lock: str, root: Path) -> None:
    text = (root / lock).read_text()
    assert not re.search(r"://|--index|--find-links|^-e|^\s*#.* /", text, re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS[1:])
def test_images_are_built_from_the_versions_that_were_tested(lock: str, root: Path) -> None:
    everything = pins(root / LOCKS[0])
    assert pins(root / lock)
    assert pins(root / lock).items() <= everything.items()


def names_of(declared: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9._-]", line)[0].replace(".", "-").lower() for line in declared}


def test_every_declared_dependency_is_locked(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert names_of(declared) <= set(pins(root / LOCKS[0]))


def test_a_run_is_set_up_with_what_it_and_its_page_need_and_no_other_extra(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = names_of([line for lines in project["optional-dependencies"].values() for line in lines])
    needed = names_of([*project["dependencies"], *project["optional-dependencies"]["serve"]])
    locked = set(pins(root / "deploy/run.lock"))
    assert needed <= locked
    assert locked & (extras - needed) == {"hatchling"}  # installs the checkout itself


def test_the_action_installs_what_its_lock_names_by_hashes_and_nothing_else(root: Path) -> None:
    said = (root / "action.yml").read_text()
    installs = [line for line in said.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert "--only-binary :all:" in installs[0]
    assert "deploy/action.lock" in installs[0]
    assert "--no-deps" in installs[1]
    assert "--no-index" in installs[1]
    assert "--no-build-isolation" in installs[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    needed = names_of([*project["dependencies"], *project["optional-dependencies"]["analysis"], "hatchling"])
    assert needed <= set(pins(root / "deploy/action.lock"))


def test_every_pin_has_a_hash(root: Path) -> None:
    for lock in WITH_PIP:
        text = (root / lock).read_text()
        assert all("--hash=sha256:" in entry for entry in re.split(r"^(?=[a-z0-9].*==)", text, flags=re.MULTILINE)[1:])
