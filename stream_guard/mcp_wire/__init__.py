"""MCP as a guard between client and server reads it: messages, sessions, and questions to a gate."""
