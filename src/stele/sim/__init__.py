"""The simulated world: power failures, faults, and what checks that we survive them."""
