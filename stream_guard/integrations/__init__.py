"""Agent frameworks: each module puts the gate in front of the tools of one framework, imported on use."""
