"""The cookbook: wishes in plain words, each with a rule and its tests, and the way from somebody's words to them."""
