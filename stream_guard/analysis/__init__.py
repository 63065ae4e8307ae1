"""Questions asked of batch results: what changed, what holds, what was promised."""
