"""The agents that a run drives: Python callables and HTTP endpoints."""
