"""The checks of ``stream-guard doctor``: topics, gates and sinks."""
