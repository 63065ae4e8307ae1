"""From records to events, or to dead letters."""
