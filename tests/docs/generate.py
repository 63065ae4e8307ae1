"""Writes the parts of the pages that are made from the code: ``python -m tests.docs.generate``.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end of NAME -->``. A page without such marks
that is listed in ``WHOLE`` is generated from its first line to its last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from stream_guard.policy.forms import PolicyForm, RuleForm, SessionsForm
from stream_guard.registry import Registry, build_registry
from stream_guard.settings import RouteSettings
from tests.docs.catalogue import OUR_PLUGINS, catalogue
from tests.docs.cookbook import cookbook
from tests.docs.packs import pack_rules
from tests.docs.tables import fields_table, metrics_table, options_table, settings_table
from tests.docs.tree import tree
from tests.formats.differences import differences_table

ROOT = Path(__file__).parents[2]

Make = Callable[[Registry], str]

WHOLE: Mapping[str, Make] = {"docs/rules.md": catalogue, "docs/cookbook.md": lambda _: cookbook()}
PARTS: Mapping[str, Mapping[str, Make]] = {
    "docs/alerts.md": {"route settings": lambda _: fields_table(RouteSettings)},
    "docs/architecture.md": {"tree": lambda _: tree(ROOT)},
    "docs/formats.md": {"differences": lambda _: differences_table()},
    "docs/packs.md": {"pack rules": pack_rules},
    "docs/policy.md": {
        "policy keys": lambda _: fields_table(PolicyForm),
        "session keys": lambda _: fields_table(SessionsForm),
        "rule keys": lambda _: fields_table(RuleForm),
    },
    "docs/starting.md": {"options of init": lambda _: options_table("init")},
    "docs/contract_run.md": {"options of contract run": lambda _: options_table("contract run")},
    "docs/replay.md": {"options of replay": lambda _: options_table("replay")},
    "docs/running.md": {
        "options of run": lambda _: options_table("run"),
        "options of check": lambda _: options_table("check"),
        "metrics": metrics_table,
        "settings": lambda _: settings_table(),
    },
}
PAGES = (*WHOLE, *PARTS)


def registry_of_packs() -> Registry:
    """Return what comes with the project, whatever else is installed."""
    return build_registry(OUR_PLUGINS)


def generated(page: str, registry: Registry) -> str:
    """Return a page as it should be."""
    if page in WHOLE:
        return WHOLE[page](registry)
    text = (ROOT / page).read_text()
    for name, make in PARTS[page].items():
        text = replace(text, name, make(registry))
    return text


def replace(text: str, name: str, part: str) -> str:
    """Put a part between its marks; ValueError when they are not there."""
    begin, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
    found = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    if not found.search(text):
        raise ValueError(f"the page has no {begin.strip()} with {end} below it")
    return found.sub(lambda _: f"{begin}\n{part}\n\n{end}", text)


def main() -> None:
    """Rewrite what has changed, and say so."""
    registry = registry_of_packs()
    for page in PAGES:
        path, text = ROOT / page, generated(page, registry)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
