"""For MkDocs: pages link to code beside them in the repository; on the site, which has none, the link is its text."""

from __future__ import annotations

import re

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./(?!adr/|\w+\.md)[^)]*\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the page with links out of docs/ replaced by their texts; those between pages stay."""
    return _OUTSIDE.sub(r"\1", markdown)
