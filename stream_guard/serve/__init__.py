"""The guard over HTTP: checks, events, reviews, and a description of all of it."""
