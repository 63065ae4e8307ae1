"""The command line: one file per group of commands; each parses, calls, prints and exits."""
