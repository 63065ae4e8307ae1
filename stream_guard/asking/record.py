"""Answers on record: what judges said, by the digest of what they were asked and the model that was asked."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Final

from stream_guard.history import inquiries
from stream_guard.history.database import Database
from stream_guard.history.inquiries import AskedInquiry
from stream_guard.judge.ports import Answer

_REMEMBERED: Final = 4096  # answers in memory


def record_id(model: str, digest: str) -> str:
    """Return the id of an inquiry to a model; it is also what the judge must repeat."""
    return blake2b(json.dumps([model, digest]).encode(), digest_size=16).hexdigest()


def answer_of(inquiry: AskedInquiry) -> Answer | None:
    """Return what a judge said to an inquiry; None while it has not answered, or could not."""
    if inquiry.state != "answered":
        return None
    return Answer(
        violated=inquiry.violated, confidence=inquiry.confidence, explanation=inquiry.explanation, id=inquiry.id
    )


class AnswerRecord:
    """The answers that a history has. It asks nobody; with ``asks`` it wants to know what is not answered."""

    def __init__(self, database: Database, model: str, *, asks: bool = False) -> None:
        self.asks = asks
        self._database = database
        self._model = model
        self._known: dict[str, Answer] = {}

    def find(self, digest: str) -> Answer | None:
        """Return the recorded answer to an inquiry, by its digest, or None."""
        known = self._known.get(digest)
        if known is not None:
            return known
        asked = inquiries.find(self._database, record_id(self._model, digest))
        answer = None if asked is None else answer_of(asked)
        if answer is not None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[digest] = answer
        return answer
