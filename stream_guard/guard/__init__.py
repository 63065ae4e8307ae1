"""Decisions on tool calls before they run."""
