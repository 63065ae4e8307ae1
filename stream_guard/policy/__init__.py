"""Load policy files into rules, and report every problem at once, with its place in the file."""
