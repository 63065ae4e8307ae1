"""Counters, metrics, health and logs of a process."""
