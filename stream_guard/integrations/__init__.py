"""Agent frameworks: each module puts the gate in front of the tools of one, and imports it only when used."""
