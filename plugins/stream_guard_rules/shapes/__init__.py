"""What kinds are written as in a policy, and what they remember: a module for each module of kinds, and what is shared.

They stand apart because pydantic and msgspec read annotations when a class is defined, and a compiled module keeps none
(docs/adr/0015).
"""
