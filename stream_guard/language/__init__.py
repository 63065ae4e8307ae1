"""What policies are written in: conditions, operators, paths, patterns, durations."""
