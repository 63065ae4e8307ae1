"""The productions of the grammar, one a line: a pattern over symbols, and what a statement that fits it says."""
