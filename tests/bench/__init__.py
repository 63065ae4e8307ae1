"""Benchmarks: ratios taken in one run, never a time limit. ``make bench`` prints a table and writes JSON."""
