"""The judge: events in, findings out. It knows no settings, files, threads, sockets or clocks (docs/adr/0038)."""
