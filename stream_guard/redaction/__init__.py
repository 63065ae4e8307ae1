"""Redaction: excerpts for alerts and logs that are short and hold no secrets."""

from stream_guard.redaction.secrets import mask_id, mask_secrets
from stream_guard.redaction.values import MAX_TEXT, MAX_VALUES, redact, redact_text

__all__ = ["MAX_TEXT", "MAX_VALUES", "mask_id", "mask_secrets", "redact", "redact_text"]
