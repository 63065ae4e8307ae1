"""Recorded sessions of a contract: their labels, how they are written and how they are read."""
