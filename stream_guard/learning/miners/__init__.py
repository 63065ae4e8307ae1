"""Miners: each a function from the facts of sessions to candidates of one sort."""
