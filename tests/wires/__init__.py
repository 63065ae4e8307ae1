"""Every wire that asks a gate, held to the same cases."""
