"""Formats of telemetry: spans and log records, and the events that they become."""
