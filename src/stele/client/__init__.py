"""The public API: databases, tables, rows, scans, batches and row transactions."""
