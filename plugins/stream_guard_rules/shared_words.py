"""A quick look at the words two texts share. The plain build takes none; ``shared_words.c`` is the compiled build's."""

from __future__ import annotations

from stream_guard import Json


def shares_words(text: str, others: list[Json], share: float, longer_than: int) -> bool:
    """Whether a quick look proves that enough of the distinct words of a text occur in others; False proves nothing.

    Enough is ``share`` of them. One of the words must have more than ``longer_than`` letters.
    """
    del text, others, share, longer_than
    return False
