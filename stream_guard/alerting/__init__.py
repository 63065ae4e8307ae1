"""From a finding to a delivered alert."""
