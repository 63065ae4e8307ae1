"""Rules that look across sessions: their events are sent to the partition of the rule's key."""
