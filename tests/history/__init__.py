"""What every history keeps to, whichever database it is in."""
