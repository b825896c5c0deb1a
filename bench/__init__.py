"""Benchmarks: each as a ratio to a peer or a limit in the same run."""
