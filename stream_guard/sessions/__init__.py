"""Sessions: duplicates dropped, results paired, parts split, order restored, silence noticed, limits kept."""
