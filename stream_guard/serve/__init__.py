"""The guard over HTTP: checks, events, reviews, incidents, and an OpenAPI description."""
