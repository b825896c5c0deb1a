"""Values that everything else is said in: cells, keys, ranges, schemas, clocks. No I/O."""
