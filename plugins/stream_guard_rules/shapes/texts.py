"""Texts that a policy asks for."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

# An empty text occurs in everything: a rule about it would always fire or never.
Text: TypeAlias = Annotated[str, Field(min_length=1)]
"""A text to look for."""
