"""The contract file: its sections, its checks, and how it is loaded."""
