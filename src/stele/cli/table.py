"""Create, list, show, alter, drop, undrop, split, join and compact tables."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stele.cli import exit_codes
from stele.cli.examples import epilog
from stele.cli.output import Output, columns
from stele.cli.tables import add_database, add_table, open_database
from stele.cli.values import from_bytes, read_key, to_bytes
from stele.client.backend import KEPT_DEFAULT, TabletInfo
from stele.client.database import Database
from stele.client.table import Table
from stele.errors import InvalidArgument, NotFound
from stele.model.columns import Column
from stele.model.durations import format_duration
from stele.model.groups import DEFAULT_GROUP, Group
from stele.model.schema import HISTORY_US_DEFAULT, Schema
from stele.model.schema_changes import alter, diff, rename_column
from stele.model.schema_json import schema_from_json, schema_to_json
from stele.model.typed_columns import TypedColumn


def configure(parser: ArgumentParser) -> None:
    """One subcommand for each thing to do."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (run_action, configure_action) in ACTIONS.items():
        summary = (run_action.__doc__ or "").splitlines()[0].rstrip(".")
        action = actions.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=epilog(f"table {name}"),
            formatter_class=RawDescriptionHelpFormatter,
        )
        action.add_argument("--json", action="store_true", help="print one JSON value")
        configure_action(action)


def run(arguments: Namespace, output: Output) -> int:
    """Do what the subcommand says."""
    run_action, _ = ACTIONS[arguments.action]
    with open_database(arguments, create=arguments.action == "create") as database:
        run_action(database, arguments, output)
    return exit_codes.DONE


def create(database: Database, arguments: Namespace, output: Output) -> None:
    """Create a table, and the database if there is none."""
    schema = _schema_file(arguments.schema) if arguments.schema else _new_schema(arguments)
    splits = [read_key(text, schema.key) for text in arguments.split]
    table = database.create_table(arguments.table, schema, splits)
    output.result(_described(table), f"table {table.name!r} with {len(splits) + 1} tablets")


def _new_schema(arguments: Namespace) -> Schema:
    groups = [Group("default", arguments.family)] if arguments.family else [DEFAULT_GROUP]
    key: Any = arguments.key
    if "=" in key:
        key = [tuple(part.partition("=")[::2]) for part in key.split(",")]
    history = HISTORY_US_DEFAULT if arguments.history is None else arguments.history
    return Schema(groups, _declared(arguments.column), key, history)


def _declared(texts: Iterable[str]) -> dict[Column, str]:
    """Columns and types of words such as ``info:age=int64``."""
    declared = {}
    for text in texts:
        name, equals, kind = text.rpartition("=")
        if not equals:
            raise InvalidArgument(f"{text!r} is not COLUMN=TYPE, such as info:age=int64")
        declared[Column.parse(to_bytes(name))] = kind
    return declared


def _schema_file(path: str) -> Schema:
    try:
        return schema_from_json(Path(path).read_bytes())
    except OSError as error:
        raise NotFound(f"the schema {path} cannot be read: {error.strerror}") from error


def show_all(database: Database, arguments: Namespace, output: Output) -> None:
    """List the tables, or those that were dropped."""
    tables = database.catalog(dropped=arguments.dropped)
    value = [{"name": table.name, "id": table.id} for table in tables]
    output.result(value, "\n".join(sorted(table.name for table in tables)) or "no tables")


def show(database: Database, arguments: Namespace, output: Output) -> None:
    """Show a table's schema and its tablets."""
    table = database.table(arguments.table)
    value = _described(table)
    output.result(value, f"{_schema_text(table.schema)}\n\n{_tablets_text(table.tablets())}")


def _described(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "id": table.id,
        "schema": json.loads(schema_to_json(table.schema)),
        "tablets": [
            {
                "id": tablet.id,
                "start": from_bytes(tablet.rows.start),
                "end": None if tablet.rows.end is None else from_bytes(tablet.rows.end),
                "state": tablet.state,
                "fragments": tablet.fragments,
                "size_bytes": tablet.size_bytes,
            }
            for tablet in table.tablets()
        ],
    }


def _schema_text(schema: Schema) -> str:
    lines = [("key", str(schema.key)), ("history", format_duration(schema.history_us))]
    for group in schema.groups:
        families = "every other family" if group.is_wildcard else ", ".join(group.families or ())
        purge = "" if group.purge is None else f"; purge {group.purge}"
        memory = "; in memory" if group.in_memory else ""
        lines.append((f"group {group.name}", f"{families}; {group.compression}{purge}{memory}"))
    lines += [(f"column {typed.column}", _column_text(typed)) for typed in schema.columns]
    return columns(lines)


def _column_text(typed: TypedColumn) -> str:
    called = "" if typed.label == str(typed.column) else f"; called {typed.label}"
    return f"{typed.type}{called}"


def _tablets_text(tablets: Iterable[TabletInfo]) -> str:
    lines = [("TABLET", "FROM", "STATE", "FRAGMENTS", "BYTES")]
    lines += [
        (
            tablet.id,
            from_bytes(tablet.rows.start) or "-",
            tablet.state,
            str(tablet.fragments),
            str(tablet.size_bytes),
        )
        for tablet in tablets
    ]
    return columns(lines)


def change(database: Database, arguments: Namespace, output: Output) -> None:
    """Change a table's schema and print what differs."""
    table = database.table(arguments.table)
    before = table.schema
    wished = _schema_file(arguments.schema) if arguments.schema else _changed(before, arguments)
    names = [_renaming(text) for text in arguments.rename]
    planned = alter(before, wished)
    for column, label in names:  # all that is refused is, before anything changes
        planned = rename_column(planned, column, label)
    after = database.alter_table(arguments.table, wished).schema
    for column, label in names:
        after = database.rename_column(arguments.table, column, label).schema
    changes = list(map(str, diff(before, after)))
    output.result({"changes": changes}, "\n".join(changes) or "nothing changes")


def _renaming(text: str) -> tuple[Column, str]:
    """A column and its new name of words such as ``info:age=years``."""
    name, equals, label = text.rpartition("=")
    if not equals or not label:
        raise InvalidArgument(f"{text!r:.80} is not COLUMN=NAME, such as info:age=years")
    return Column.parse(to_bytes(name)), label


def _changed(schema: Schema, arguments: Namespace) -> Schema:
    kinds: dict[Column, Any] = {typed.column: typed.type for typed in schema.columns}
    for name in arguments.drop_column:
        if kinds.pop(Column.parse(to_bytes(name)), None) is None:
            raise InvalidArgument(f"column {name!r} is not declared")
    history = schema.history_us if arguments.history is None else arguments.history
    return Schema(
        schema.groups,
        kinds | _declared(arguments.column),
        schema.key,
        history,
        removed=schema.removed,
    )


def drop(database: Database, arguments: Namespace, output: Output) -> None:
    """Stop serving a table; undrop brings it back."""
    database.drop_table(arguments.table, keep=arguments.keep)
    output.result({"dropped": arguments.table}, f"dropped table {arguments.table!r}")


def undrop(database: Database, arguments: Namespace, output: Output) -> None:
    """Bring back a table that was dropped."""
    table = database.undrop_table(arguments.table)
    output.result(_described(table), f"table {table.name!r} is back")


def split(database: Database, arguments: Namespace, output: Output) -> None:
    """Cut a tablet in two at a key."""
    table = database.table(arguments.table)
    table.split(read_key(arguments.key, table.schema.key))
    output.result(_described(table), _tablets_text(table.tablets()))


def join(database: Database, arguments: Namespace, output: Output) -> None:
    """Join the tablet that begins at a key with the one before it."""
    table = database.table(arguments.table)
    table.join(read_key(arguments.key, table.schema.key))
    output.result(_described(table), _tablets_text(table.tablets()))


def compact(database: Database, arguments: Namespace, output: Output) -> None:
    """Rewrite the files of a table, one for each tablet and group."""
    table = database.table(arguments.table)
    table.compact()
    output.result(_described(table), _tablets_text(table.tablets()))


def _configure_create(parser: ArgumentParser) -> None:
    add_table(parser)
    _configure_schema(parser)
    parser.add_argument(
        "--family", metavar="NAME", action="append", default=[], help="take only these families"
    )
    parser.add_argument(
        "--key",
        metavar="TYPE",
        default="binary",
        help="the key's type, or NAME=TYPE,NAME=TYPE for a composite one (default: binary)",
    )
    parser.add_argument(
        "--split", metavar="KEY", action="append", default=[], help="begin a tablet at this key"
    )


def _configure_schema(parser: ArgumentParser) -> None:
    parser.add_argument("--schema", metavar="FILE", help="the whole schema, as JSON")
    parser.add_argument(
        "--column",
        metavar="COLUMN=TYPE",
        action="append",
        default=[],
        help="declare a column, such as info:age=int64",
    )
    parser.add_argument("--history", metavar="TIME", help="how long to keep the past, such as 24h")


def _configure_drop(parser: ArgumentParser) -> None:
    add_table(parser)
    parser.add_argument(
        "--keep",
        default=KEPT_DEFAULT,
        metavar="TIME",
        help=f"how long undrop works, as 24h; 0s deletes it at once (default: {KEPT_DEFAULT})",
    )


def _configure_alter(parser: ArgumentParser) -> None:
    add_table(parser)
    _configure_schema(parser)
    parser.add_argument(
        "--drop-column",
        metavar="COLUMN",
        action="append",
        default=[],
        help="no longer declare a column; its cells stay",
    )
    parser.add_argument(
        "--rename",
        metavar="COLUMN=NAME",
        action="append",
        default=[],
        help="what DataFrames call a declared column; info:age=info:age undoes info:age=years",
    )


def _configure_list(parser: ArgumentParser) -> None:
    add_database(parser)
    parser.add_argument("--dropped", action="store_true", help="those that can be brought back")


def _configure_border(parser: ArgumentParser) -> None:
    add_table(parser)
    parser.add_argument("key", metavar="KEY", help="the first row of a tablet")


Action = tuple[Callable[[Database, Namespace, Output], None], Callable[[ArgumentParser], None]]

ACTIONS: dict[str, Action] = {
    "create": (create, _configure_create),
    "list": (show_all, _configure_list),
    "show": (show, add_table),
    "alter": (change, _configure_alter),
    "drop": (drop, _configure_drop),
    "undrop": (undrop, add_table),
    "split": (split, _configure_border),
    "join": (join, _configure_border),
    "compact": (compact, add_table),
}
