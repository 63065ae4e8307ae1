"""Hold a tag against the version, and print the release notes: ``python deploy/release.py vX.Y.Z``.

The version stands in pyproject.toml, so that a copy without git can be built; the tag only repeats it. The notes are
the section of that version in CHANGELOG.md, under a heading with the day: ``## 0.2.0 - 2026-01-05``.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def notes_of(tag: str, root: Path = _ROOT) -> str:
    """Return the notes; ValueError where the tag, the version and the changelog do not fit each other."""
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, and pyproject.toml says {version}: the tag of that is v{version}")
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, notes = section.partition("\n")
        if heading.split(" ")[0] == version:
            if not re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", heading):
                raise ValueError(f'CHANGELOG.md has "## {heading}"; write the day of the release: ## {version} - DAY')
            return notes.strip() + "\n"
    raise ValueError(f"CHANGELOG.md has no section ## {version}")


if __name__ == "__main__":
    try:
        sys.stdout.write(notes_of(sys.argv[1]))
    except ValueError as error:
        sys.exit(str(error))
