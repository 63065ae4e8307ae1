"""The MCP proxy: stands between a client and a server, and asks a gate about what passes."""
