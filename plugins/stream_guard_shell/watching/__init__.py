"""A live page of what the agents on this machine do: read from the files that they write, without a gate."""
