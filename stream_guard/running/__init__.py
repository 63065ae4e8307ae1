"""Runs: embedded, batch and replay, and how their parts are put together."""
