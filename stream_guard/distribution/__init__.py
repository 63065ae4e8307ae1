"""The distribution: its name and version, which of its two builds runs, and how to get what is missing."""

from stream_guard.distribution.builds import describe_build, is_compiled, other_build
from stream_guard.distribution.naming import COMMAND, NAME, install_line, own_version

__all__ = ["COMMAND", "NAME", "describe_build", "install_line", "is_compiled", "other_build", "own_version"]
