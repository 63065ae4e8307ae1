"""What a process says about itself: counts, metrics, health, logs."""
