"""Files that survive: the log, fragments, references, memory fragments and the block cache."""
