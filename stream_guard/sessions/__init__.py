"""Sessions: drop duplicates, pair results with calls, split parts, restore order, end idle ones, keep limits."""
