"""The tablet engine: what a tablet server and an embedded store run."""
