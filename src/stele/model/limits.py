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

GROUPS_MAX = 64
"""Locality groups of one table: each costs a memory fragment, a flush and a compaction queue."""

GROUP_NAME_BYTES_MAX = 64
"""Group names are part of META's column names."""

SNAPSHOT_NAME_BYTES_MAX = 256
"""Names of snapshots are part of the metastore's keys, where a byte may take three."""

TYPED_COLUMNS_MAX = 4_096
"""Declared columns of one table: in the columns layout each becomes a Parquet column."""

LABEL_BYTES_MAX = 1_024
"""The name a declared column shows to DataFrames."""

SCHEMA_BYTES_MAX = 1024 * 1024
"""A schema as JSON: it is one value in META and is parsed on every tablet load."""

KEY_COMPONENTS_MAX = 16
"""Parts of a composite row key."""

PURGE_TEXT_BYTES_MAX = 1_024
PURGE_DEPTH_MAX = 32
"""A purge policy is a line somebody wrote, not a program; the depth bounds the parser's stack."""

READ_RANGES_MAX = 100_000
"""Row ranges of one read; a larger multi-get is sent in parts."""

READ_COLUMNS_MAX = 10_000
"""Column ranges of one read."""

FILTERS_MAX = 64
"""Filters of one read; all of them run on every cell."""

REGEX_BYTES_MAX = 4_096
"""One pattern. The automaton built from it is bounded too, by the engine's own budget."""

SPEC_BYTES_MAX = 64 * 1024 * 1024
"""A read specification as JSON, checked before it is parsed."""
