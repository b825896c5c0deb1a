"""Access rules, asked in the name of a caller, and written as callers write them.

A caller has the name ``role/name`` for each of its roles; ``*`` in a rule is everybody. An operator
(``Role.ADMIN``) may read and write everything, so that nobody is locked out by a wrong rule.

Who may change rules: those whose role runs the cluster, at any time; and while rules are on, who
has the right ``a`` by the rules that decide about the directory. Such a one may give rules to
directories below it, and sees the rules it may change. Deny is the default: while rules are off
everybody may do everything to keys, but not make rules for the day on which they are on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stele.errors import InvalidArgument, PermissionDenied
from stele.metastore.commands import AclRule, Grant
from stele.metastore.state.acl import EVERYONE
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_acl import AccessRule
from stele.protocol.metastore_values import KeyRange
from stele.rpc import Context, PeerIdentity, Role

RIGHTS: Final = {
    "r": Grant.READ,
    "w": Grant.WRITE,
    "l": Grant.LOCK,
    "a": Grant.ADMIN,
}

OPERATORS: Final = frozenset({Role.ADMIN, Role.MASTER, Role.METASTORE})
"""They may see and change all rules."""


class Access:
    """The rules of one state, asked before anything is proposed."""

    def __init__(self, machine: StateMachine) -> None:
        self._machine = machine

    def check(self, context: Context, grant: Grant, keys: KeyRange) -> None:
        """Refuse a caller who has not this right on all of these keys."""
        if self._machine.may("", grant, keys):  # everybody may, or rules are switched off
            return
        caller = context.caller
        if Role.ADMIN not in caller.roles and not self._has(caller, grant, keys):
            raise PermissionDenied(
                f"{caller} has no right to {str(grant.name).lower()} {keys.start}"
            )

    def check_rules_of(self, context: Context, directory: str) -> None:
        """Refuse a caller who may not change the rules of a directory."""
        if not self._administers(context.caller, directory):
            raise PermissionDenied(
                f"{context.caller} may not change the rules of {directory}: that needs the right a "
                "there, with rules switched on, or an operator"
            )

    def rules_for(self, context: Context) -> dict[str, tuple[AclRule, ...]]:
        """The rules that a caller may change; one that may change none is refused."""
        caller = context.caller
        rules = self._machine.access_rules()
        seen = {path: own for path, own in rules.items() if self._administers(caller, path)}
        if not seen and OPERATORS.isdisjoint(caller.roles):
            raise PermissionDenied(
                f"{caller} may not see access rules: that needs the right a for some directory, "
                "with rules switched on, or an operator"
            )
        return seen

    def _administers(self, caller: PeerIdentity, directory: str) -> bool:
        if not OPERATORS.isdisjoint(caller.roles):
            return True
        # As one key, the directory is decided about by its own rules or by those above it: what
        # has rules further down is not touched by a change here.
        return self._machine.is_guarded and self._has(caller, Grant.ADMIN, KeyRange(directory))

    def _has(self, caller: PeerIdentity, grant: Grant, keys: KeyRange) -> bool:
        names = [f"{role}/{caller.name}" for role in sorted(caller.roles)]
        return any(self._machine.may(name, grant, keys) for name in names)


def stored_rules(rules: Iterable[AccessRule]) -> tuple[AclRule, ...]:
    """Rules as the state keeps them; what makes no sense is refused."""
    return tuple(AclRule(_checked(rule.caller), _grant(rule.rights)) for rule in rules)


def expected_rules(rules: Iterable[AccessRule]) -> tuple[AclRule, ...]:
    """The same for rules that are there already, whoever they name."""
    return tuple(AclRule(rule.caller, _grant(rule.rights)) for rule in rules)


def told_rules(rules: Iterable[AclRule]) -> tuple[AccessRule, ...]:
    """Rules as people read them."""
    return tuple(AccessRule(rule.identity, _letters(rule.grant)) for rule in rules)


def _checked(caller: str) -> str:
    """Nobody else could ever be asked about: a rule for a misspelt caller would be a silent no."""
    role, _, name = caller.partition("/")
    if caller == EVERYONE or (name and role in set(Role)):
        return caller
    raise InvalidArgument(
        f"{caller!r} is not a caller: that is role/name, such as client/worker, with a role of "
        f"{', '.join(sorted(Role))}; or {EVERYONE} for everybody"
    )


def _letters(grant: Grant) -> str:
    return "".join(letter for letter, right in RIGHTS.items() if right in grant)


def _grant(letters: str) -> Grant:
    grant = Grant(0)
    for letter in letters:
        if letter not in RIGHTS:
            raise InvalidArgument(f"right {letter!r} is none of {', '.join(RIGHTS)}")
        grant |= RIGHTS[letter]
    return grant
