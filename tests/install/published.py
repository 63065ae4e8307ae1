"""What is published, an index of it on the disk, and fresh environments that install from there as users do.

The index holds our distribution alone, laid out as any (PEP 503); packages of others come from where the machine's pip
and uv get them, in the versions that are locked.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stream_guard.distribution import NAME

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache" / "dist"
TOOLS: Final = CACHE / "tools" / "bin"
PYTHONS: Final = ("3.11", "3.13")


def run(command: Sequence[object], folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command away from the checkout and from the environment of the tests."""
    ours = (
        "PYTHONPATH",
        "PYTHONSAFEPATH",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONWARNINGS",
        "VIRTUAL_ENV",
        "COV_",
        "COVERAGE_",
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**environment, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "NO_COLOR": "1", "COLUMNS": "200", **variables},
        check=False,
        capture_output=True,
        text=True,
    )


def run_well(command: Sequence[object], folder: Path = ROOT, **variables: str) -> str:
    """Run a command that must not fail, and return what it printed."""
    done = run(command, folder, **variables)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def find_python(minor: str) -> str:
    """Return a Python of this version that starts; empty without one."""
    own = Path.home() / ".pyenv" / "versions"
    for python in (f"python{minor}", *sorted(map(str, own.glob(f"{minor}.*/bin/python{minor}")))):
        try:
            if run([python, "-c", "import ensurepip, venv"]).returncode == 0:
                return python
        except FileNotFoundError:
            continue
    return ""


def make_index(folder: Path, files: Iterable[Path]) -> str:
    """Lay an index out in a folder and return its address."""
    project = folder / "simple" / NAME
    project.mkdir(parents=True)
    for file in files:
        (project / file.name).hardlink_to(file)
    links = "".join(f'<a href="{file.name}">{file.name}</a>\n' for file in sorted(project.iterdir()))
    (project / "index.html").write_text(f"<!DOCTYPE html><html><body>\n{links}</body></html>\n")
    return (folder / "simple").as_uri()


def write_constraints(file: Path) -> Path:
    """Write the locked versions, without their hashes: ours has none that a lock could know."""
    locked = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^([a-z0-9][a-z0-9.-]*==[^\s;]+)( ; [^\\\n]+)?", locked, re.MULTILINE)
    file.write_text("".join(f"{pin}{marker}\n" for pin, marker in pins))
    return file


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment, or what pipx makes of one."""

    folder: Path
    command: tuple[str, ...]  # that starts stream-guard

    def ask(self, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run stream-guard in a folder of the user's."""
        return run([*self.command, *arguments], folder)

    @property
    def wheel_tag(self) -> str:
        """The tag of the wheel that was installed."""
        [about] = self.folder.rglob(f"{NAME.replace('-', '_')}-*.dist-info/WHEEL")
        return about.read_text().partition("\nTag: ")[2].partition("\n")[0]

    @property
    def megabytes(self) -> float:
        """How much the installed packages take, but for pip's own and bytecode."""
        [site] = self.folder.rglob("site-packages")
        files = [path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        own = [path for path in files if not path.relative_to(site).parts[0].startswith(("pip", "setuptools"))]
        return sum(path.stat().st_size for path in own) / 1e6


def install_with_pip(folder: Path, python: str, wanted: str, index: str, constraints: Path) -> Environment:
    """As ``pip install`` in a new environment."""
    run_well([python, "-m", "venv", folder])
    chosen = ["--extra-index-url", index, "--constraint", constraints]
    run_well([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *chosen, wanted])
    return Environment(folder, (str(folder / "bin" / "stream-guard"),))


def install_with_uv(folder: Path, python: str, wanted: str, index: str, constraints: Path) -> Environment:
    """As ``uv pip install`` in a new environment."""
    run_well([TOOLS / "uv", "venv", "--quiet", "--python", python, folder])
    chosen = ["--index", index, "--constraint", constraints, "--python", folder / "bin" / "python"]
    run_well([TOOLS / "uv", "pip", "install", "--quiet", *chosen, wanted])
    return Environment(folder, (str(folder / "bin" / "stream-guard"),))


def run_with_pipx(folder: Path, python: str, wanted: str, index: str, constraints: Path) -> Environment:
    """As ``pipx run``: an environment that pipx makes and keeps for the next time."""
    chosen = f"--extra-index-url={index} --constraint={constraints}"
    homes = [f"{name}={folder}" for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")]
    pipx = [str(TOOLS / "pipx"), "run", "--python", python, "--pip-args", chosen, "--spec", wanted, "stream-guard"]
    environment = Environment(folder, ("env", *homes, *pipx))
    run_well([*environment.command, "--version"])
    return environment


CLIENTS: Final = {"pip": install_with_pip, "uv": install_with_uv, "pipx run": run_with_pipx}
