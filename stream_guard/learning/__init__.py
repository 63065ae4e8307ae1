"""Rules learned from recordings: what sessions that went well have in common, as rules in shadow mode."""
