"""Locality groups: families stored together, and how their files are kept.

One group is one column set with files, memory, flushes and compactions of its own. Its settings
act when files are written: changing them changes what compactions write from then on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stele.errors import InvalidArgument, InvalidSchema
from stele.model.columns import HIDDEN_FAMILIES, check_family
from stele.model.limits import GROUP_NAME_BYTES_MAX
from stele.model.purge import PurgePolicy

WILDCARD: Literal["*"] = "*"

BLOCK_CELLS_DEFAULT = 4_096
BLOCK_CELLS_MIN = 256
BLOCK_CELLS_MAX = 65_536
"""Cells of a block: fewer make point reads quicker, more make scans quicker and files smaller."""

COMPRESSION_LEVEL_MAX = {"none": 0, "lz4": 0, "snappy": 0, "zstd": 19}
"""Known compressions and their highest level; 0 for those that have none."""

_GROUP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_COMPRESSION = re.compile(r"([a-z0-9]+)(?::([1-9][0-9]?))?", re.ASCII)


@dataclass(frozen=True, slots=True, init=False)
class Group:
    """A locality group: which families it holds, and how their files are kept.

    ``families`` is ``None`` for the wildcard. ``compression`` is a name, with a level where there
    is one: ``zstd``, ``zstd:3``, ``lz4``, ``snappy``, ``none``.
    """

    name: str
    families: tuple[str, ...] | None
    purge: PurgePolicy | None
    compression: str
    block_cells: int
    in_memory: bool

    def __init__(
        self,
        name: str,
        families: Iterable[str] | Literal["*"] = WILDCARD,
        *,
        purge: str | PurgePolicy | None = None,
        compression: str = "zstd",
        block_cells: int = BLOCK_CELLS_DEFAULT,
        in_memory: bool = False,
    ) -> None:
        put = object.__setattr__
        put(self, "name", _check_group_name(name))
        put(self, "families", _check_families(name, families))
        put(self, "purge", None if purge is None else _check_purge(name, purge))
        put(self, "compression", _check_compression(name, compression))
        put(self, "block_cells", _check_block_cells(name, block_cells))
        put(self, "in_memory", _check_in_memory(name, in_memory))

    @property
    def is_wildcard(self) -> bool:
        return self.families is None

    @property
    def compression_name(self) -> str:
        return self.compression.partition(":")[0]

    @property
    def compression_level(self) -> int | None:
        """The level asked for, or ``None`` for the writer's default."""
        level = self.compression.partition(":")[2]
        return int(level) if level else None


def _check_group_name(name: object) -> str:
    if not isinstance(name, str) or _GROUP_NAME.fullmatch(name) is None:
        raise InvalidSchema(
            f"group name {name!r} is not made of [A-Za-z0-9_.-], beginning with a letter or digit"
        )
    if len(name) > GROUP_NAME_BYTES_MAX:
        raise InvalidSchema(
            f"group name {name[:32]!r}... of {len(name)} characters is over the limit of "
            f"{GROUP_NAME_BYTES_MAX}"
        )
    return name


def _check_families(group: str, families: object) -> tuple[str, ...] | None:
    if families == WILDCARD:
        return None
    if isinstance(families, str | bytes) or not isinstance(families, Iterable):
        raise InvalidSchema(
            f"group {group!r}: families is a list of names or '*', not {families!r}"
        )
    names = []
    for name in families:
        try:
            names.append(check_family(name))
        except InvalidArgument as error:
            raise InvalidSchema(f"group {group!r}: {error}") from error
    for name in names:
        if names.count(name) > 1:
            raise InvalidSchema(f"group {group!r} names family {name!r} twice")
    if not names:
        raise InvalidSchema(f"group {group!r} has no families")
    return tuple(sorted(names))


def _check_purge(group: str, purge: str | PurgePolicy) -> PurgePolicy:
    try:
        return PurgePolicy.parse(purge)
    except InvalidSchema as error:
        raise InvalidSchema(f"group {group!r}: {error}") from error


def _check_compression(group: str, compression: object) -> str:
    match = _COMPRESSION.fullmatch(compression) if isinstance(compression, str) else None
    level_max = COMPRESSION_LEVEL_MAX.get(match[1]) if match else None
    if match is None or level_max is None or int(match[2] or 0) > level_max:
        known = ", ".join(COMPRESSION_LEVEL_MAX)
        raise InvalidSchema(
            f"group {group!r}: unknown compression {compression!r}; known are {known}, and "
            f"zstd:1 to zstd:{COMPRESSION_LEVEL_MAX['zstd']}"
        )
    return match[0]


def _check_block_cells(group: str, block_cells: object) -> int:
    if not isinstance(block_cells, int) or not BLOCK_CELLS_MIN <= block_cells <= BLOCK_CELLS_MAX:
        raise InvalidSchema(
            f"group {group!r}: block_cells is a number from {BLOCK_CELLS_MIN} to "
            f"{BLOCK_CELLS_MAX}, not {block_cells!r}"
        )
    return block_cells


def _check_in_memory(group: str, in_memory: object) -> bool:
    if not isinstance(in_memory, bool):
        raise InvalidSchema(f"group {group!r}: in_memory is True or False, not {in_memory!r:.80}")
    return in_memory


DEFAULT_GROUP = Group("default")
"""What a schema has that names no groups: everything in one."""

RETRY_WINDOW = "1h"
"""How long a request that was sent again is recognised, at least."""


def _hidden_group() -> Group:
    """Made like no user can: its name and its families are reserved."""
    group = Group("hidden", ["hidden"], purge=f"max-history=1 or max-age={RETRY_WINDOW}")
    object.__setattr__(group, "name", "_hidden")
    object.__setattr__(group, "families", HIDDEN_FAMILIES)
    return group


HIDDEN_GROUP = _hidden_group()
"""Where each table keeps our own cells: in files that no read of a user touches."""
