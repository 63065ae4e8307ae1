"""Walks a command as a shell would run it, without running anything."""
