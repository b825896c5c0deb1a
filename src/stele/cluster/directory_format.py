"""Whether a directory can be opened at all, found out before a single byte of it is changed.

The version in the header of ``root.json`` is the version of the whole directory. And a catalog of
tables without a root is damage: beginning anew beside it would bury what is left. The reverse, a
root without its catalog, is noticed where the catalog is opened.
"""

from __future__ import annotations

from stele.cluster.root_of_trust import has_root, read_root
from stele.env.ports import FileSystem
from stele.tablet.config_store import RootFile, missing_root


def check_format(files: FileSystem) -> None:
    """``UnsupportedFormat`` or ``Corruption`` for a directory that must not be opened."""
    root = RootFile(files)
    if root.exists():
        root.load()
    elif has_root(files):
        tables = read_root(files).tables
        if tables:
            raise missing_root(table.name for table in tables)
