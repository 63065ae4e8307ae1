"""Files and databases that survive a crash."""
