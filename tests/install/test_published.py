"""What is published: reproducible, checked, and built from the sdist with a compiler and without."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from pathlib import Path

import pytest

from stream_guard.distribution import NAME
from tests.install.published import CACHE, PYTHONS, ROOT, TOOLS, run, run_well

pytestmark = pytest.mark.slow
OLDEST = (2, 28)  # the glibc of the oldest system that is supported: RHEL 8 and its like


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def only(folder: Path, pattern: str) -> Path:
    [file] = folder.glob(pattern)
    return file


def build_sdist(published: Path, environment: str, into: Path, **variables: str) -> Path:
    """Build a wheel of the sdist, with the locked tools of an environment."""
    command = [CACHE / environment / "bin" / "python", "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    run_well([*command, "--no-cache-dir", "--wheel-dir", into, only(published, "*.tar.gz")], ROOT, **variables)
    return only(into, "*.whl")


def test_there_are_an_sdist_a_plain_wheel_and_a_compiled_one_for_each_python(published: Path) -> None:
    wheels = sorted(file.name for file in published.glob("*.whl"))
    tags = [name.split("-")[2] for name in wheels]
    assert tags == [*(f"cp{minor.replace('.', '')}" for minor in PYTHONS), "py3"]
    assert all(name.startswith(f"{NAME.replace('-', '_')}-") for name in wheels)
    assert only(published, "*.tar.gz").name.startswith(f"{NAME.replace('-', '_')}-")


def test_compiled_wheels_fit_every_linux_that_is_supported(published: Path) -> None:
    for wheel in published.glob("*-cp3*.whl"):
        needed = [tuple(map(int, found)) for found in re.findall(r"manylinux_(\d+)_(\d+)_", wheel.name)]
        assert needed, wheel.name
        assert min(needed) <= OLDEST
        assert "is consistent with" in run_well([TOOLS / "auditwheel", "show", wheel])


def test_sums_are_of_the_files_beside_them(published: Path) -> None:
    rows = {name: said for said, name in map(str.split, (published / "SHA256SUMS").read_text().splitlines())}
    assert rows == {file.name: digest(file) for file in published.iterdir() if file.name != "SHA256SUMS"}
    assert len(rows) == 3 + len(PYTHONS)


def test_the_bill_of_materials_names_every_locked_package_in_its_version(published: Path) -> None:
    bill = json.loads((published / "sbom.cdx.json").read_text())
    named = {(part["name"].lower().replace("_", "-").replace(".", "-"), part["version"]) for part in bill["components"]}
    pins = re.findall(r"^([a-z0-9][a-z0-9.-]*)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert len(pins) > 100
    assert {(name.replace(".", "-"), version) for name, version in pins} == named
    assert bill["metadata"]["component"]["name"] == NAME


def test_the_sdist_holds_what_a_build_needs_and_no_tests(published: Path) -> None:
    with tarfile.open(only(published, "*.tar.gz")) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"pyproject.toml", "README.md", "LICENSE", "deploy/compiled_build.py", "deploy/build.lock"} <= set(names)
    assert {name.split("/")[0] for name in names} == {
        *("stream_guard", "plugins", "deploy", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"),
        *("SECURITY.md", "PKG-INFO", ".gitignore"),
    }


def test_without_a_compiler_the_sdist_gives_the_plain_wheel_to_the_byte(published: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "bin"  # neither cc nor anything else
    nothing.mkdir()
    wheel = build_sdist(published, "plain", tmp_path / "wheel", PATH=str(nothing), CC="/bin/false")
    assert digest(wheel) == digest(only(published, "*-any.whl"))


def test_with_a_compiler_and_asked_the_sdist_gives_the_compiled_wheel_to_the_byte(
    published: Path, tmp_path: Path
) -> None:
    """A second build, in another folder, of other files: the same wheel."""
    wheel = build_sdist(published, "cpython-311", tmp_path / "wheel", HATCH_BUILD_HOOK_ENABLE_CUSTOM="true")
    assert digest(wheel) == digest(only(ROOT / ".cache" / "compiled" / "cpython-311", "*.whl"))


def test_a_second_build_gives_the_same_sdist_and_plain_wheel(published: Path, tmp_path: Path) -> None:
    done = run(["bash", "deploy/dist.sh", "plain", tmp_path])
    assert done.returncode == 0, done.stderr
    for pattern in ("*.tar.gz", "*-any.whl"):
        assert digest(only(tmp_path, pattern)) == digest(only(published, pattern))


def test_the_linters_find_nothing_in_the_workflows(published: Path) -> None:
    done = run(["bash", "deploy/dist.sh", "workflows"])
    assert done.returncode == 0, done.stdout + done.stderr
