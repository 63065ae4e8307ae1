"""A real OpenTelemetry Collector for tests, built from its Go modules, and an agent whose telemetry goes through it."""
