"""Command lines to learn from, at the end of what ``stele COMMAND --help`` says.

They are data, like the table of commands, and all of one kind of database: a table ``users`` with
rows of people and a declared column ``info:age``. Each runs as it stands, in the order given.
"""

from __future__ import annotations

from stele.cli.commands import Example
from stele.cli.output import columns

COMMAND_EXAMPLES: dict[str, tuple[Example, ...]] = {
    "changes": (
        Example("stele changes users --db ./data", "all that is there, as new"),
        Example("stele changes users --since monday --db ./data", "since a snapshot of that name"),
        Example("stele changes users --mode all --limit 5 --db ./data", "every mutation, not net"),
    ),
    "check": (
        Example("stele check --db ./data", "META, catalog, files and logs; changes nothing"),
        Example("stele check --deep --db ./data", "also reads every byte of every file and log"),
        Example("stele check --repair --db ./data", "mend what is clear; says how to undo it"),
    ),
    "count": (
        Example("stele count users --db ./data", "all rows"),
        Example("stele count users --prefix a --db ./data", "rows whose key begins with a"),
        Example("stele count users -c info:age --db ./data", "rows that have this column"),
    ),
    "delete": (
        Example("stele delete users ada -c info:age --db ./data", "one column of a row"),
        Example("stele delete users ada -c notes: --db ./data", "a family of it"),
        Example("stele delete users ada --db ./data", "the whole row"),
    ),
    "get": (
        Example("stele get users ada --db ./data", "a row, the newest version of each column"),
        Example("stele get users ada -c info:age notes: --db ./data", "a column and a family"),
        Example("stele get users ada --versions 3 --at monday --db ./data", "as of a snapshot"),
    ),
    "operations": (
        Example("stele operations --db ./data", "flushes, compactions, splits and the like"),
        Example("stele operations --running --db ./data", "only what is under way"),
        Example("stele operations --db ./data --json", "the same for a program"),
    ),
    "put": (
        Example("stele put users ada info:name=Ada info:age=36 --db ./data", "two columns"),
        Example(r"stele put users ada 'pic:raw=\x89PNG' --db ./data", r"\x89 is one byte"),
        Example(
            "stele put users --db ./data -- -dash info:name=D", "a key that begins with a dash"
        ),
    ),
    "scan": (
        Example("stele scan users --limit 10 --db ./data", "the first ten rows"),
        Example("stele scan users --start a --end c -c info: --db ./data", "from a up to, not c"),
        Example("stele scan users --reverse --db ./data --json", "last row first, as JSON lines"),
    ),
    "table create": (
        Example("stele table create events --db ./data", "any family; makes the directory"),
        Example("stele table create pets --column info:age=int64 --db ./data", "a typed column"),
        Example("stele table create days --key id=string,day=date --db ./data", "composite keys"),
    ),
    "table list": (
        Example("stele table list --db ./data", "the tables there are"),
        Example("stele table list --dropped --db ./data", "those that undrop brings back"),
    ),
    "table show": (
        Example("stele table show users --db ./data", "schema and tablets"),
        Example("stele table show users --db ./data --json", "the schema as --schema takes it"),
    ),
    "table alter": (
        Example("stele table alter users --column info:zip=string --db ./data", "declare one more"),
        Example("stele table alter users --drop-column info:zip --db ./data", "its cells stay"),
        Example(
            "stele table alter users --rename info:age=years --db ./data", "as DataFrames call it"
        ),
    ),
    "table drop": (
        Example("stele table drop users --db ./data", "nothing is deleted yet"),
        Example("stele table undrop users --db ./data", "and it is back"),
        Example("stele table drop users --keep 0s --db ./data", "deleted at once, for good"),
    ),
    "table undrop": (
        Example("stele table list --dropped --db ./data", "what there is to bring back"),
        Example("stele table undrop old --db ./data", "with all that was in it"),
    ),
    "table split": (
        Example("stele table split users b --db ./data", "row b begins a tablet of its own"),
        Example("stele table show users --db ./data", "look at them"),
    ),
    "table join": (
        Example("stele table split users b --db ./data", "two tablets"),
        Example("stele table join users b --db ./data", "and one again"),
    ),
    "table compact": (
        Example("stele table compact users --db ./data", "one file for each tablet and group"),
        Example("stele table compact users --db ./data --json", "with the sizes, for a program"),
    ),
}
"""By command, and by action where a command has those."""


def epilog(command: str) -> str | None:
    """The examples of a command as the end of its help; nothing if there are none."""
    lines = [(f"  {line}", purpose) for line, purpose in COMMAND_EXAMPLES.get(command, ())]
    return f"examples:\n{columns(lines)}" if lines else None
