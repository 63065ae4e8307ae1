"""Code of other languages that a command contains: Python is parsed, others are searched for calls with literals."""
