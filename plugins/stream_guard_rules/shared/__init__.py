"""What rule kinds share, and the machinery of the larger ones."""
