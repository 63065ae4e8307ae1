"""The conformance corpus: one logical session, rendered in every format."""

from __future__ import annotations
