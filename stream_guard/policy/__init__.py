"""Policy files become rules: every error at load, all at once, with its place."""
