"""What is said about access rules: who may do what, by directory."""

from __future__ import annotations

import msgspec

from stele.protocol.metastore_values import Identity


class AccessRule(msgspec.Struct, frozen=True, array_like=True):
    """Who may do what: a caller as ``role/name``, ``*`` for any, and letters of ``rwla``."""

    caller: str
    rights: str
    """``r`` read, ``w`` write, ``l`` lock, ``a`` change the rules."""


class SetAclRequest(msgspec.Struct, frozen=True):
    """Replace the rules of a directory; none removes them, and those above it hold again."""

    identity: Identity
    directory: str
    rules: tuple[AccessRule, ...]
    expected: tuple[AccessRule, ...] | None = None
    """If given: only while the directory has these rules, else ``Conflict``."""


class GetAclRequest(msgspec.Struct, frozen=True):
    """The access rules that the caller may change; for operators, all of them."""


class DirectoryRules(msgspec.Struct, frozen=True):
    """The rules of one directory."""

    directory: str
    rules: tuple[AccessRule, ...]


class AclResponse(msgspec.Struct, frozen=True):
    """Access rules, by directory, and whether they count."""

    enabled: bool
    directories: tuple[DirectoryRules, ...]


class SwitchAclRequest(msgspec.Struct, frozen=True):
    """Turn access rules on or off."""

    identity: Identity
    enabled: bool
