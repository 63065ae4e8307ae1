"""Test vectors: cases as data, run through the public API by pytest and by ``python -m tests.vectors``."""
