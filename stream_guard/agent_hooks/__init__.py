"""Hooks of agents' own programs: a small client of a gate, of the standard library alone, so that it starts at once."""
