"""Reports: what an analysis found, in the forms that people and machines read."""
