"""The first steps: what is in somebody's traces, and a policy, settings and samples to begin with."""
