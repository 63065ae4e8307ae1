"""Hooks of coding agents: a payload becomes one question to a gate, and the agent hears the answer in its own words."""
