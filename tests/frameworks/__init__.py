"""The gate in front of real agent frameworks, driven by their scripted models."""
