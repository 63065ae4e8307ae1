"""The native format, and CloudEvents around it."""
