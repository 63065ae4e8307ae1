"""Policies and recordings: what a change of policy would do, and how right rules are."""
