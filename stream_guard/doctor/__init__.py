"""The checks of ``stream-guard doctor``: the installation, topics, gates and sinks."""
