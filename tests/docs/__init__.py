"""What keeps the pages true: blocks that are run, parts that are generated, names that are looked up."""
