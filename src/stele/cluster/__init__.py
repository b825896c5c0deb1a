"""Whole stores: embedded in one process, and local clusters."""
