"""From recorded sessions to the matrix: rules, fault exposure, cells and the score."""
