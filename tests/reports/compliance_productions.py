"""``python -m tests.reports.compliance_productions FOLDER...``: how many sentences each production serves.

A folder has prompts (NAME.txt or NAME.md) and beside each its tools (NAME.tools.json). A production that serves one
sentence of all prompts was written for that sentence.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from stream_guard_compliance import extract
from stream_guard_compliance.reading.values import Reading


def served(folders: Sequence[Path]) -> dict[str, set[tuple[str, str]]]:
    """Return, for each production, the prompts and sentences that became rules by it."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for file in sorted(file for folder in folders for sort in ("*.txt", "*.md") for file in folder.glob(sort)):
        catalogue = file.with_name(f"{file.stem}.tools.json")
        if file.stem == "README":
            continue
        tools = json.loads(catalogue.read_text(encoding="utf-8")) if catalogue.exists() else ()
        for rule in extract(file.read_bytes().decode("utf-8"), tools).rules:
            for name in _productions(rule.read.reading) if rule.compiled.rules else ():
                found[name].add((file.stem, rule.rule.description))
    return found


def _productions(reading: Reading) -> Iterator[str]:
    """Yield what a sentence was read by: its production, and what holds it to a case or takes it back."""
    yield reading.frame or "a proposal"
    if reading.asked:
        yield "unless the user asks"
    if reading.case is not None:
        yield "in a case that the trace tells"


def lines(found: dict[str, set[tuple[str, str]]]) -> Iterator[str]:
    """Yield a row for each production, those that serve most first."""
    yield f"{'sentences':>9} {'prompts':>7}  production"
    for name, rows in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        yield f"{len(rows):>9} {len({prompt for prompt, _ in rows}):>7}  {name}"
    once = sum(len(rows) == 1 for rows in found.values())
    yield f"{len(found)} productions serve {sum(map(len, found.values()))} sentences; {once} serve one"


if __name__ == "__main__":
    print("\n".join(lines(served([Path(name) for name in sys.argv[1:]]))))
