"""Reports about a matrix: table, Markdown, JSON, JUnit, SARIF, GitHub annotations and HTML."""
