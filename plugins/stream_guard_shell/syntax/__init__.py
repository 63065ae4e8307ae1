"""The text of a command as bash parses it: words, commands, and where it refuses them."""
