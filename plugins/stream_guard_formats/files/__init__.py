"""Formats of files: the sessions of agents and the runs of benchmarks."""
