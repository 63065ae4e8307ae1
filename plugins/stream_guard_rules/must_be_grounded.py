"""Every answer rests on the chunks that were retrieved for it."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg

# A run of letters and digits of any script; the underscore separates, as a blank does.
_TOKEN: Final = re.compile(r"[^\W_]{2,}")

# The same for ASCII, which most texts are, with far fewer instructions: everything else becomes a blank.
_LOWERED: Final = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 32 for code in range(128)) + bytes(128)
_SINGLE: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_NO_CHUNKS: Final = sg.Unsure("unevaluable", "chunks at its retrieval_path")

# Words that any two English texts share. An answer of nothing else says nothing that could be grounded;
# beside other words they count like all words.
_COMMON: Final = (
    "an and are as at be been but by can do does for from had has have he her his if in is it its no not of on or our "
    "she so than that the their them then there these they this those to was we were will with you your"
)
STOPWORDS: Final = frozenset(_COMMON.split())


def tokens(text: str) -> set[str]:
    """Return the distinct words of a text: lowercased, of two letters or digits at least."""
    if text.isascii():
        return set(text.encode("ascii").translate(_LOWERED).decode("ascii").split()) - _SINGLE
    # A letter with its accent written apart is the same letter.
    return set(_TOKEN.findall(unicodedata.normalize("NFC", text).lower()))


class MustBeGroundedParams(sg.Params):
    """Parameters of ``must_be_grounded``."""

    retrieval_path: sg.Path = Field(
        description="where the retrieved chunks stand in the turn: a text, an object with `text`, or a list of either"
    )
    min_unigram_precision: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="the share of the answer's words that must occur in the chunks; equal is enough",
    )

    @field_validator("retrieval_path")
    @classmethod
    def _is_in_the_turn(cls, path: sg.Path) -> sg.Path:
        if path.text.split(".")[0] not in {"request", "response"}:
            raise PydanticCustomError(
                "path",
                'chunks stand in a turn\'s request or response; "{path}" leads elsewhere',
                {"path": path.text},
            )
        return path


class MustBeGrounded(sg.Rule[MustBeGroundedParams, sg.NoState]):
    """Enough of the words of every answer must occur in the chunks that were retrieved for it.

    A turn without chunks or without text is not judged. An answer with no words, or with stopwords only,
    is never grounded. This is overlap of words, not of meaning; in scripts without blanks between words a
    whole run of letters is one word.
    """

    kind = "must_be_grounded"
    examples = (
        sg.Example(
            claim="an answer about something else is a hit",
            params={"retrieval_path": "request.metadata.chunks"},
            trace=[
                {
                    "turn": "Bananas grow in clusters.",
                    "request": {"metadata": {"chunks": ["The parcel arrives on Friday."]}},
                }
            ],
            hits=[0],
        ),
        sg.Example(
            claim="an answer in the words of the chunks is silent",
            params={"retrieval_path": "request.metadata.chunks"},
            trace=[
                {
                    "turn": "Your parcel arrives on Friday.",
                    "request": {"metadata": {"chunks": [{"text": "The parcel arrives on Friday."}]}},
                }
            ],
            hits=[],
        ),
    )

    def __init__(self, params: MustBeGroundedParams) -> None:
        super().__init__(params)
        self._finder, self._wanted = params.retrieval_path.finder, params.min_unigram_precision

    def needs(self) -> frozenset[sg.Need]:
        """The answer and the chunks."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | sg.Unsure | None:
        """Compare the words. Without the path, nobody knows what was retrieved; null and an empty list say: nothing."""
        retrieved = self._finder.find(turn)
        if retrieved is sg.MISSING:
            return _NO_CHUNKS if turn.text.strip() else None
        if retrieved is None or retrieved == [] or not turn.text.strip():
            return None
        words = tokens(turn.text)
        if words <= STOPWORDS:
            return self._hit("the answer has no words that could be grounded", 0.0, sorted(words))
        chunks = _chunks(retrieved)
        if not chunks:
            return self._hit(
                f"the chunks at {self.params.retrieval_path.text} have no text to read", 0.0, sorted(words)
            )
        precision, missing = 0.0, words
        for chunk in chunks:
            missing = missing - tokens(chunk)
            precision = 1 - len(missing) / len(words)
            if precision >= self._wanted:
                return None
        wanted = self._wanted
        detail = f"only {precision:.0%} of the answer's words occur in the chunks, and {wanted:.0%} must"
        return self._hit(detail, precision, sorted(missing))

    def shortfall(self, event: sg.Event, _state: sg.NoState) -> sg.Shortfall | None:
        """How many of the answer's words the chunks have, and how many they must."""
        if not isinstance(event, sg.Turn) or not (words := tokens(event.text)):
            return None
        retrieved = self.params.retrieval_path.find(event)
        if retrieved is sg.MISSING or not retrieved:
            return None
        missing = words.difference(*map(tokens, _chunks(retrieved)))
        precision, wanted = 1 - len(missing) / len(words), self.params.min_unigram_precision
        lacks = f"{precision:.0%} of the answer's words occur in the chunks, and {wanted:.0%} must"
        return sg.Shortfall(lacks, 1 - (precision - wanted))

    def _hit(self, detail: str, precision: float, missing: list[str]) -> sg.Hit:
        evidence = {
            "precision": round(precision, 4),
            "wanted": self.params.min_unigram_precision,
            "not_in_chunks": [word[:40] for word in missing[:10]],
        }
        return sg.Hit(detail, evidence)


def _chunks(retrieved: sg.Json) -> list[str]:
    """Return the texts: of a string, of an object with ``text``, or of a list of them."""
    texts = []
    for chunk in retrieved if isinstance(retrieved, list) else [retrieved]:
        text = chunk.get("text") if isinstance(chunk, dict) else chunk
        if isinstance(text, str):
            texts.append(text)
    return texts
