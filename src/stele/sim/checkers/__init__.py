"""Judges of what clients saw: pure functions over a history, apart from the system they judge."""
