"""The command line: one file per group of commands; each parses, calls, prints and exits."""

from stream_guard.cli.app import main

__all__ = ["main"]
