"""Policies and recordings: what a change of policy would do, and rules mined from sessions."""
