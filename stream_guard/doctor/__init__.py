"""What ``stream-guard doctor`` looks at."""
