"""Contracts: whether the agent keeps its rules when the world breaks."""
