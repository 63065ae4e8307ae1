from __future__ import annotations

import re
from pathlib import Path

from stream_guard.policy.message_parts import Code


def test_every_code_is_documented_once_and_no_other_is(root: Path) -> None:
    text = (root / "docs" / "policy-errors.md").read_text()
    documented = re.findall(r"^\| (SG\d{3}) \|", text, re.MULTILINE)
    assert documented == [code.value for code in Code]


def test_every_code_is_used(root: Path) -> None:
    sources = "\n".join(path.read_text() for path in (root / "stream_guard").rglob("*.py"))
    assert [code.name for code in Code if f"Code.{code.name}" not in sources] == []


def test_the_bounds_in_the_document_are_the_bounds_in_the_code(root: Path) -> None:
    from stream_guard.policy import classes, document, translation

    (row,) = [line for line in (root / "docs" / "policy-errors.md").read_text().splitlines() if "| SG120 |" in line]
    bounds = (
        document.MAX_NODES,
        document.MAX_ALIASED,
        document.MAX_TEXT,
        classes.MAX_EXPANDED,
        translation.MAX_PROBLEMS,
    )
    assert all(f"{bound:,}" in row for bound in bounds)
    assert f"over {document.MAX_DEPTH} levels" in row
    assert document.MAX_BYTES == 4 * 2**20
