"""The report on a prompt: sentence by sentence what was read, what was checked, and what was left open and why."""
