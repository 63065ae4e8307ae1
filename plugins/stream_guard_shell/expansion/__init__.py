"""What words become: fields of known and unknown pieces, braces, splitting, globs, places."""
