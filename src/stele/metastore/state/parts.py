"""The state in memory: what is loaded from a store, and then kept beside it.

Loading reads every session, answer and rule, which takes a while for a large state. So the parts of
an image that is about to become the state are loaded from where it lies, in a thread, and taken
over when it is the state.
"""

from __future__ import annotations

from dataclasses import dataclass

from stele.metastore.kv import KeyValues, Reader
from stele.metastore.state import keys
from stele.metastore.state.acl import AccessRules
from stele.metastore.state.header import Header, load_header
from stele.metastore.state.locks import Locks
from stele.metastore.state.retries import Retries
from stele.metastore.state.sessions import Sessions
from stele.metastore.state.staging import Staged
from stele.metastore.state.transactions import Transactions
from stele.metastore.state.versions import Versions


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that a state machine holds of one state."""

    staged: Staged
    header: Header
    versions: Versions
    locks: Locks
    sessions: Sessions
    retries: Retries
    access: AccessRules
    alarms: dict[int, str]
    transactions: Transactions


def load_parts(values: KeyValues, source: Reader) -> Parts:
    """The parts of what ``source`` holds, which is the contents of ``values`` or will be."""
    staged = Staged(values, source)
    header = load_header(source)
    versions = Versions(staged, header)
    locks = Locks(staged)
    sessions = Sessions(staged, versions, locks)
    alarms = {
        keys.number_in(stored, 1): reason.decode()
        for stored, reason in source.scan(*keys.table_bounds(keys.ALARMS))
    }
    return Parts(
        staged,
        header,
        versions,
        locks,
        sessions,
        Retries(staged, header),
        AccessRules(staged, header),
        alarms,
        Transactions(header, versions, sessions, locks, alarms),
    )
