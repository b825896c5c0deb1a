"""Keys, locks, watches, members and backups of a metastore.

  stele metastore put /config/limit 10 --at 127.0.0.1:7420
  stele metastore get /config/limit
  stele metastore range /config/                 a path that ends with / is a directory
  stele metastore watch /config/ --since 120     every change after index 120, as it comes
  stele metastore lock /locks/job -- ./job.sh    run a command while holding a lock
  stele metastore members                        who belongs to the group
  stele metastore drain 381625445                a node that should not lead
  stele metastore bootstrap --at 127.0.0.1:7420  found a group with a node that waits for it
  stele metastore quota 512MB                    how much may be stored; alarms
  stele metastore acl grant /jobs/ client/w rl   who may do what
  stele metastore snapshot backup.image          a copy of everything
  stele metastore restore backup.image --data DIR --listen ADDRESS

--at names one or more nodes (default: $STELE_METASTORE, or 127.0.0.1:7420); with --db it is the
metastore of a database in a directory instead. Values are text; --hex for other bytes.
"""

from __future__ import annotations

import os
from argparse import REMAINDER, ArgumentParser, Namespace
from argparse import Action as ParserAction
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import stele
from stele.cli import exit_codes
from stele.cli.metastore_acl import configure_acl, run_acl
from stele.cli.metastore_member import (
    configure_bootstrap,
    configure_drain,
    run_bootstrap,
    run_drain,
)
from stele.cli.metastore_members import configure_members, run_members
from stele.cli.metastore_quota import configure_quota, run_quota
from stele.cli.output import Output, columns
from stele.cli.tls_options import add_tls, tls_files
from stele.client.metastore import Metastore
from stele.errors import InvalidArgument, NotFound, RetryElsewhere, RetryLater, SteleError
from stele.protocol.metastore_values import Changes, KeyValue
from stele.rpc import Role, TlsFiles
from stele.rpc.tls import holder_of

ADDRESS_DEFAULT = "127.0.0.1:7420"
ADDRESS_VARIABLE = "STELE_METASTORE"


def configure(parser: ArgumentParser) -> None:
    """One subcommand for each thing to do."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (run_action, configure_action) in ACTIONS.items():
        summary = (run_action.__doc__ or "").splitlines()[0].rstrip(".")
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument("--json", action="store_true", help="print JSON")
        if run_action is not restore:
            _add_connection(action)
        if run_action in TIMED:
            action.add_argument("--timeout", default="30s", help="how long it may take, as in 5s")
        configure_action(action)


def _add_connection(parser: ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--at", action="append", metavar="HOST:PORT", help="a node of it")
    where.add_argument("--db", metavar="DIR", help="the metastore of a database in a directory")
    add_tls(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Do what the subcommand says."""
    run_action, _ = ACTIONS[arguments.action]
    if run_action is restore:
        restore(arguments, output)
        return exit_codes.DONE
    with connected(arguments) as metastore:
        return run_action(metastore, arguments, output) or exit_codes.DONE


@contextmanager
def connected(arguments: Namespace) -> Iterator[Metastore]:
    """The metastore that the command line names."""
    if arguments.db is not None:
        if not os.path.isdir(arguments.db):
            raise NotFound(f"there is no database in {arguments.db!r}")
        with stele.open(arguments.db) as database:
            yield database.metastore
        return
    given = arguments.at or os.environ.get(ADDRESS_VARIABLE, ADDRESS_DEFAULT).split(",")
    tls = tls_files(arguments)
    role = Role.ADMIN if tls is None else _role_in(tls)
    with stele.metastore.connect(given, tls=tls, role=role) as metastore:
        yield metastore


def _role_in(tls: TlsFiles) -> Role:
    """What the certificate allows; operators may do everything, others what is left to them."""
    roles = holder_of(tls.certificate).roles
    return Role.ADMIN if Role.ADMIN in roles else min(roles)


# Keys.


def get(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Print the value of a key."""
    found = metastore.get(
        arguments.key,
        at=arguments.index,
        serializable=arguments.serializable,
        timeout=arguments.timeout,
    )
    if found is None:
        raise NotFound(f"there is no key {arguments.key}")
    output.result(_described(found), _text(found.value))


def _configure_get(parser: ArgumentParser) -> None:
    parser.add_argument("key")
    _add_reading(parser)


def _add_reading(parser: ArgumentParser) -> None:
    parser.add_argument("--index", type=int, default=0, help="as it was after this index")
    parser.add_argument(
        "--serializable", action="store_true", help="from any node, perhaps not the newest"
    )


def put(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Write a key; prints the index of the change."""
    value = _value(arguments)
    index = metastore.put(arguments.key, value, timeout=arguments.timeout)
    output.result({"index": index}, str(index))


def _configure_put(parser: ArgumentParser) -> None:
    parser.add_argument("key")
    parser.add_argument("value")
    parser.add_argument("--hex", action="store_true", help="the value is given in hexadecimal")


def _value(arguments: Namespace) -> bytes:
    if not arguments.hex:
        return os.fsencode(arguments.value)  # as it was typed, also if it is not text
    try:
        return bytes.fromhex(arguments.value)
    except ValueError as error:
        raise InvalidArgument(f"value {arguments.value!r} is not hexadecimal") from error


def range_(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Print the keys of a directory, or from one path to another, in order."""
    items = metastore.range(
        arguments.path,
        arguments.end,
        limit=arguments.limit,
        keys_only=arguments.keys_only,
        at=arguments.index,
        serializable=arguments.serializable,
        timeout=arguments.timeout,
    )
    for item in items:
        text = item.key if arguments.keys_only else f"{item.key}\t{_text(item.value)}"
        output.record(_described(item), text)


def _configure_range(parser: ArgumentParser) -> None:
    parser.add_argument("path", help="a directory such as /jobs/, or where to begin")
    parser.add_argument("end", nargs="?", help="the first key that is left out")
    parser.add_argument("--limit", type=int, help="at most so many")
    parser.add_argument("--keys-only", action="store_true", help="without their values")
    _add_reading(parser)


def delete(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Remove a key, a directory, or the keys from one path to another."""
    count = metastore.delete(arguments.path, arguments.end, timeout=arguments.timeout)
    output.result({"deleted": count}, f"{count} deleted")


def _configure_delete(parser: ArgumentParser) -> None:
    parser.add_argument("path")
    parser.add_argument("end", nargs="?")


def watch(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Print every change of a key or directory, as it comes; end with Ctrl-C."""
    if arguments.count is not None and arguments.count < 1:
        raise InvalidArgument(
            f"--count {arguments.count}: a watch ends after 1 transaction or more"
        )
    # A watch waits for a metastore as long as it takes; whoever begins one wants to know.
    metastore.range(
        arguments.path, f"{arguments.path}/", limit=1, keys_only=True, timeout=arguments.timeout
    )
    seen = 0
    with metastore.watch(arguments.path, since=arguments.since) as changes:
        for transaction in changes:
            _print_changes(transaction, output)
            seen += 1
            if arguments.count is not None and seen >= arguments.count:
                return


def _configure_watch(parser: ArgumentParser) -> None:
    parser.add_argument("path")
    parser.add_argument("--since", type=int, help="begin after this index, not now")
    parser.add_argument("--count", type=int, help="end after so many transactions")


def _print_changes(transaction: Changes, output: Output) -> None:
    for change in transaction.changes:
        gone = change.value is None
        value: dict[str, Any] = {"index": transaction.index, "key": change.key}
        value |= {"deleted": True} if gone else _value_of(change.value or b"")
        text = "deleted" if gone else f"= {_text(change.value or b'')}"
        output.record(value, f"{transaction.index}\t{change.key}\t{text}")
    output.flush()


def lock(metastore: Metastore, arguments: Namespace, output: Output) -> int:
    """Hold a lock while a command runs; its token is in $STELE_LOCK_TOKEN."""
    import subprocess

    command = arguments.command
    if not command:
        raise InvalidArgument("name the command to run while the lock is held, after --")
    with (
        metastore.session(ttl=arguments.ttl) as session,
        session.lock(
            arguments.key, exclusive=not arguments.shared, timeout=arguments.timeout
        ) as held,
    ):
        environment = {**os.environ, "STELE_LOCK_TOKEN": str(held.token)}
        output.flush()
        try:
            process = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's own
        except OSError as error:
            raise InvalidArgument(f"cannot run {command[0]!r}: {error.strerror}") from error
        with process:
            session.on_lost(process.terminate)
            return _as_shells_say(process.wait())


def _as_shells_say(code: int) -> int:
    """An exit code for one that a signal ended, which Python gives as a negative number."""
    return code if code >= 0 else exit_codes.SIGNALLED - code


def _configure_lock(parser: ArgumentParser) -> None:
    parser.add_argument("key")
    parser.add_argument("--shared", action="store_true", help="with others who share it")
    parser.add_argument("--ttl", default="10s", help="how soon others may have it if we vanish")
    parser.add_argument("command", nargs=REMAINDER, action=_TakeCommand, help="-- and the command")


class _TakeCommand(ParserAction):
    """Everything behind the key is the command, as it stands; but options may stand behind the key,
    too, and then ``--`` says where the command begins."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, _option: str | None = None
    ) -> None:
        words: Sequence[str] = values
        if words and words[0].startswith("-"):
            if "--" not in words:
                parser.error("put -- before the command to run")
            end = words.index("--")
            if end:
                parser.parse_args([*words[:end], namespace.key], namespace)
            words = words[end + 1 :]
        setattr(namespace, self.dest, list(words))


# The group.


def members(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """List members; or add, promote, remove one, move it, or hand leadership to it."""
    run_members(metastore, arguments, output)


def drain(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Let a node leave leading to others until it starts again."""
    run_drain(metastore, arguments, output)


def bootstrap(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Tell a node that was started with --await-bootstrap to found a group, or to join one."""
    run_bootstrap(metastore, arguments, output)


def quota(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Print how much is stored and how much may be; or set the limit, or end an alarm."""
    run_quota(metastore, arguments, output)


def acl(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Print who may do what; or grant, revoke, and switch rules on or off."""
    run_acl(metastore, arguments, output)


def status(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Print how each node is."""
    rows: list[tuple[str, ...]] = [
        ("NODE", "ADDRESS", "ROLE", "TERM", "APPLIED", "KEYS", "BYTES", "SESSIONS", "ALARMS")
    ]
    found = []
    silent: list[SteleError] = []
    for number, address in _whom_to_ask(metastore, arguments):
        try:
            node = metastore.admin.status(address or None)
        except (RetryLater, RetryElsewhere) as error:
            silent.append(error)
            found.append({"node": number, "address": address, "error": str(error)})
            role = "silent" if isinstance(error, RetryLater) else "waiting"
            rows.append((str(number or ""), address, role, *["-"] * 5, str(error)))
            continue
        found.append(_fields(node))
        alarms = ", ".join(f"{n}: {why}" for n, why in node.alarms.items()) or "none"
        numbers = (node.term, node.applied, node.keys, node.used_bytes, node.sessions)
        role = f"{node.role}, drained" if node.is_drained else node.role
        rows.append((str(node.node), node.address, role, *map(str, numbers), alarms))
    if len(silent) == len(found):
        raise silent[0]
    output.result(found, columns(rows))


def _whom_to_ask(metastore: Metastore, arguments: Namespace) -> list[tuple[int | None, str]]:
    """The nodes that were named, or all members: number, as far as it is known, and address."""
    if arguments.at:
        return [(None, address) for address in arguments.at]
    return [(member.node, member.address) for member in metastore.admin.members()]


def _fields(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def snapshot(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Write a copy of everything to a file, which appears only when it is complete."""
    from stele.cluster.restore import write_backup

    index, size = write_backup(metastore, Path(arguments.file))
    output.result(
        {"file": arguments.file, "index": index, "bytes": size},
        f"{arguments.file}: {size} bytes, the state after index {index}",
    )


def _configure_snapshot(parser: ArgumentParser) -> None:
    parser.add_argument("file")


def restore(arguments: Namespace, output: Output) -> None:
    """Make the first node of a new group from a copy: a new incarnation, without sessions."""
    from stele.cluster.restore import restore_backup

    restored = restore_backup(
        Path(arguments.file), arguments.data, arguments.listen, index_offset=arguments.index_offset
    )
    output.result(
        {
            "cluster": restored.cluster,
            "node": restored.node,
            "index": restored.index,
            "incarnation": restored.incarnation,
        },
        f"node {restored.node} of the new group {restored.cluster} begins at index "
        f"{restored.index}, incarnation {restored.incarnation}; start it with\n"
        f"  stele serve master --data {arguments.data} --listen {arguments.listen}",
    )


def _configure_restore(parser: ArgumentParser) -> None:
    parser.add_argument("file")
    parser.add_argument("--data", required=True, metavar="DIR", help="an empty directory")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT", help="where it will be")
    parser.add_argument(
        "--index-offset",
        type=int,
        default=1_000_000_000,
        help="how far indices go on above those of the copy: further than the lost group got",
    )


def _nothing(_parser: ArgumentParser) -> None:
    """A subcommand without arguments of its own."""


Action = Callable[..., int | None]

ACTIONS: dict[str, tuple[Action, Callable[[ArgumentParser], None]]] = {
    "get": (get, _configure_get),
    "put": (put, _configure_put),
    "range": (range_, _configure_range),
    "delete": (delete, _configure_delete),
    "watch": (watch, _configure_watch),
    "lock": (lock, _configure_lock),
    "members": (members, configure_members),
    "drain": (drain, configure_drain),
    "bootstrap": (bootstrap, configure_bootstrap),
    "status": (status, _nothing),
    "quota": (quota, configure_quota),
    "acl": (acl, configure_acl),
    "snapshot": (snapshot, _configure_snapshot),
    "restore": (restore, _configure_restore),
}

TIMED = {get, put, range_, delete, watch, lock}
"""Those that ask once, or begin with a question; the others know how long each part may take."""


def _described(item: KeyValue) -> dict[str, Any]:
    described: dict[str, Any] = {"key": item.key, **_value_of(item.value)}
    described |= {"index": item.index, "created": item.created, "version": item.version}
    return described | ({"session": item.session} if item.session else {})


def _value_of(value: bytes) -> dict[str, str]:
    """A value as JSON can hold it: as text, or else in hexadecimal."""
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"value_hex": value.hex()}


def _text(value: bytes) -> str:
    """A value for people: as it is, with what is not text shown as escapes."""
    return value.decode("utf-8", "backslashreplace")
