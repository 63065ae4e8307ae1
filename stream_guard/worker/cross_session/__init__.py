"""Rules that look across sessions, in the worker."""
