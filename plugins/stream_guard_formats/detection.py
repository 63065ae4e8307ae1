"""The format of a record, detected by its shape: each decoder says how sure it is that the record is of its format."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from stream_guard import Decoder, Json

_logger = logging.getLogger(__name__)


class DetectedFormat(NamedTuple):
    """A format, and the confidence from 0 to 1 that a record has it."""

    name: str
    confidence: float


_UNKNOWN: Final = DetectedFormat("", 0.0)


class FormatDetector:
    """Asks decoders whether they recognise a record. Of equal confidences, that of the first decoder counts."""

    def __init__(self, decoders: Mapping[str, type[Decoder]]) -> None:
        self._decoders = decoders
        self._failed: set[str] = set()  # formats whose decoder could not answer; each is logged once

    def detect(self, data: Json) -> DetectedFormat:
        """Return the most likely format of a parsed record; confidence 0 where no decoder recognises it."""
        best = _UNKNOWN
        for name in self._decoders:
            confidence = self.ask(name, data)
            if confidence > best.confidence:
                best = DetectedFormat(name, confidence)
                if confidence >= 1.0:
                    break
        return best

    def ask(self, name: str, data: Json) -> float:
        """Return the confidence of a decoder, at most 1; 0 where it fails, so that no plugin stops the others."""
        try:
            return min(float(self._decoders[name].recognises(data)), 1.0)
        except Exception as error:  # noqa: BLE001  # a plugin may raise anything
            if name not in self._failed:
                self._failed.add(name)
                _logger.warning("the decoder %s cannot say whether it recognises a record: %r", name, error)
            return 0.0
