"""Shell commands as effects: what a command does, and rules that ask about it."""
