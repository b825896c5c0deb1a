"""The deterministic state machine: what every replica computes from the same log."""
