"""Every limit on user data, in one place, with its unit and its reason.

They bound what one request can make a server allocate, and keep each length within what the
formats store it in.
"""

ROW_BYTES_MAX = 65_535
"""Row keys are compared and kept in indexes all the time; Bigtable allows 4 KiB, HBase 32 KiB."""

FAMILY_BYTES_MAX = 255
"""Families are a schema's few names, not data."""

FAMILIES_MAX = 1_024
"""Families of one table; their codes are 16-bit and the per-row cost of more would be felt."""

QUALIFIER_BYTES_MAX = 65_535
"""Qualifiers may hold data (a wide row's second key), so they are as long as row keys."""

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""One value. Larger objects belong in files that a cell names."""

BATCH_CELLS_MAX = 4 * 1024 * 1024
BATCH_BYTES_MAX = 256 * 1024 * 1024
"""One batch. Arrow's 32-bit offsets end at 2 GiB; this stays far from it even after merging."""
