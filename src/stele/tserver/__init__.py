"""The serving side of tables: what a tablet server, or the owner of a directory, runs."""
