"""Everything that speaks HTTP: the proxies before tools and models, and the thread they run in."""
