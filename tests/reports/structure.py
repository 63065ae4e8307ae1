"""Count what a reader of the tree meets: loose modules, small files with one importer, class names used twice.

python -m tests.reports.structure [CHECKOUT]
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.parsing import parse

SMALL: Final = 80  # lines; a file of more is worth its own name
SHARED: Final = frozenset(("Params", "State"))  # what a kind's file calls its own, as the tutorial's does
_PACKAGES: Final = "stream_guard_*"

# Run in a process of its own: the packages of the checkout must not be those of this process.
_IMPORTERS: Final = """
import json, sys
sys.path[:0] = json.loads(sys.argv[2])
import grimp
graph = grimp.build_graph(*json.loads(sys.argv[1]), cache_dir=None)
print(json.dumps({name: sorted(graph.find_modules_that_directly_import(name)) for name in graph.modules}))
"""


@dataclass(frozen=True, slots=True)
class Structure:
    """The counts of one checkout."""

    root_modules: tuple[str, ...]
    modules: int
    single_importer: dict[str, str]  # small files, by the one module that imports them
    shared_classes: dict[str, tuple[str, ...]]  # class names used more than once, and where


def measure(checkout: Path) -> Structure:
    """Return the counts of a checkout."""
    files = dict(_files(checkout))
    importers = _importers(checkout, sorted({name.partition(".")[0] for name in files}))
    return Structure(
        root_modules=tuple(sorted(path.stem for path in (checkout / "stream_guard").glob("*.py"))),
        modules=len(files),
        single_importer={
            name: importers[name][0]
            for name, path in sorted(files.items())
            if path.name != "__init__.py" and len(importers.get(name, ())) == 1 and _lines(path) <= SMALL
        },
        shared_classes={name: places for name, places in class_names(checkout).items() if len(places) > 1},
    )


@cache
def class_names(checkout: Path) -> dict[str, tuple[str, ...]]:
    """Return every class name of the core and the packs, and the modules that have a class of that name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module, path in sorted(_files(checkout)):
        for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED:
                found[node.name].append(module)
    return {name: tuple(places) for name, places in sorted(found.items())}


def _files(checkout: Path) -> Iterator[tuple[str, Path]]:
    """Yield the modules of the core and the packs by their names."""
    for package in [checkout / "stream_guard", *sorted((checkout / "plugins").glob(_PACKAGES))]:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _importers(checkout: Path, packages: list[str]) -> dict[str, list[str]]:
    paths = json.dumps([str(checkout), str(checkout / "plugins")])
    command = [sys.executable, "-c", _IMPORTERS, json.dumps(packages), paths]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    importers: dict[str, list[str]] = json.loads(done.stdout)
    return importers


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def main(arguments: list[str]) -> int:
    """Print the counts, and what they count."""
    checkout = Path(arguments[0] if arguments else ".").resolve()
    found = measure(checkout)
    print(f"modules at the root of stream_guard: {len(found.root_modules)}")
    print(f"  {' '.join(found.root_modules)}")
    print(f"modules of stream_guard and the packs: {found.modules}")
    print(f"files of at most {SMALL} lines with a single importer: {len(found.single_importer)}")
    for name, importer in found.single_importer.items():
        print(f"  {name} <- {importer}")
    print(f"class names used more than once: {len(found.shared_classes)}")
    for name, places in found.shared_classes.items():
        print(f"  {name}: {', '.join(places)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
