"""Answers kept by the digest of their question: the same question is paid for once."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import stream_guard as sg


def digest_of(url: str, body: dict[str, sg.Json]) -> str:
    """Return the digest of everything that decides an answer: endpoint, model, instructions, rule and session."""
    asked = json.dumps([url, body], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(asked.encode()).hexdigest()


class AnswerCache:
    """A folder with one file for each answer; what cannot be read is as if it were not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, digest: str) -> sg.Answer | None:
        """Return the answer, without what it once cost, or None."""
        try:
            data = json.loads((self._folder / f"{digest}.json").read_bytes())
            violated, confidence, why = data["violated"], data["confidence"], data["explanation"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        if not isinstance(violated, bool) or not isinstance(confidence, int | float) or not isinstance(why, str):
            return None
        return sg.Answer(violated=violated, confidence=float(confidence), explanation=why)

    def put(self, digest: str, answer: sg.Answer) -> None:
        """Keep the answer; a folder that cannot be written to costs money, not the answer."""
        data = {"violated": answer.violated, "confidence": answer.confidence, "explanation": answer.explanation}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished = self._folder / f".{digest}.{os.getpid()}"
            unfinished.write_text(json.dumps(data), encoding="utf-8")
            unfinished.replace(self._folder / f"{digest}.json")
        except OSError:
            return
