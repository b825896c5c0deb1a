"""Who may do what, by directory.

A directory may have rules; they hold for everything below it, except below a longer directory that
has rules of its own, which then hold alone. While access rules are switched on, what no rule allows
is denied; while they are off, everything is allowed. A request for a range needs its grant at the
directory that holds the whole range and at every directory with own rules inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from stele.errors import Conflict, InvalidArgument
from stele.metastore.commands import AclRule, Grant
from stele.metastore.paths import ROOT, bounds, directories_of, prefix_end
from stele.metastore.state import keys
from stele.metastore.state.header import Header
from stele.metastore.state.staging import Staged
from stele.protocol.metastore_values import KeyRange

EVERYONE: Final = "*"

Rules = Mapping[str, tuple[AclRule, ...]]

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[tuple[AclRule, ...]]] = msgspec.msgpack.Decoder(
    tuple[AclRule, ...]
)


def may(rules: Rules, identity: str, grant: Grant, selected: KeyRange) -> bool:
    """Whether an identity is allowed something on all keys of a range; deny is the default."""
    governing = list(_governing(rules, selected))
    return bool(governing) and all(
        _allowed(rules[directory], identity, grant) for directory in governing
    )


def _governing(rules: Rules, selected: KeyRange) -> Iterator[str]:
    start, end = bounds(selected)
    above = [
        directory
        for directory in directories_of(start)
        if directory in rules and end <= prefix_end(directory)
    ]
    if not above:
        return
    yield above[-1]
    if selected.end is not None:
        for directory in rules:
            if directory < end and prefix_end(directory) > start and directory not in above:
                yield directory


def _allowed(rules: tuple[AclRule, ...], identity: str, grant: Grant) -> bool:
    allowed = Grant(0)
    for rule in rules:
        if rule.identity in (identity, EVERYONE):
            allowed |= rule.grant
    return grant in allowed


class AccessRules:
    """The rules in memory and in the store."""

    def __init__(self, staged: Staged, header: Header):
        self._staged = staged
        self._header = header
        self.rules: dict[str, tuple[AclRule, ...]] = {
            stored[1:].decode(): _decoder.decode(data)
            for stored, data in staged.scan(*keys.table_bounds(keys.RULES))
        }

    def may(self, identity: str, grant: Grant, selected: KeyRange) -> bool:
        """Whether the state as it is allows it."""
        return not self._header.acl_enabled or may(self.rules, identity, grant, selected)

    def set(
        self,
        directory: str,
        rules: tuple[AclRule, ...],
        expected: tuple[AclRule, ...] | None = None,
    ) -> None:
        """Replace the rules of a directory; an empty list removes them.

        ``Conflict`` if it has other rules than the expected ones.
        """
        if expected is not None and self.rules.get(directory, ()) != expected:
            raise Conflict(f"the access rules of {directory} were changed meanwhile")
        if self._header.acl_enabled and directory == ROOT:
            _check_governed(rules)
        if rules:
            self.rules[directory] = rules
            self._staged.put(keys.rules_key(directory), _encoder.encode(rules))
        else:
            self.rules.pop(directory, None)
            self._staged.delete(keys.rules_key(directory))

    def switch(self, enabled: bool) -> None:
        """Turn the rules on or off."""
        if enabled:
            _check_governed(self.rules.get(ROOT, ()))
        self._header.acl_enabled = enabled


def _check_governed(rules_of_root: tuple[AclRule, ...]) -> None:
    if not any(Grant.ADMIN in rule.grant for rule in rules_of_root):
        raise InvalidArgument(
            "nobody could change the access rules any more: give somebody ADMIN on / first"
        )
