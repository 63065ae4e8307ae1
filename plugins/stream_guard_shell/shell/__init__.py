"""The state of a shell, what is recorded of it, and a call of a program in it."""
