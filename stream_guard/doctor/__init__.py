"""The checks of ``stream-guard doctor``: topics and gates."""
