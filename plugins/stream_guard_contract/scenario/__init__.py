"""One scenario while it runs: its session record, and wrapped Python tools and models."""
