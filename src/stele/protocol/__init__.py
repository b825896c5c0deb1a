"""What the roles say to each other: one file of messages and methods for each service."""
