"""Lines that are cells: which columns a DataFrame of them has, the same for loads and for writes.

Their columns have fixed names, so there is nothing to say about them: an argument that tells what
a column of wide rows is, and a column that is none of theirs, are refused and never passed over.
"""

from __future__ import annotations

from collections.abc import Mapping

from stele.errors import InvalidArgument
from stele.model.arrow_input import CELL_COLUMNS

CELL_EXTRAS = ("timestamp", "op", "txn")
"""What lines of cells may have besides; a ``txn`` is ignored, they get a new one."""


def check_cells(types: Mapping[str, str], **given: object) -> None:
    """Refuse columns that cells do not have, and arguments that are ``given`` and not ``None``."""
    for name, value in given.items():
        if value is not None:
            raise InvalidArgument(
                f"{name} says something of wide rows, and these lines are cells, whose columns are "
                f"{', '.join(CELL_COLUMNS)}, timestamp and op: leave {name} out, or give "
                f"shape='rows' if they are rows"
            )
    wrong = [name for name in types if name not in (*CELL_COLUMNS, *CELL_EXTRAS)]
    wrong = wrong or [name for name in CELL_COLUMNS if name not in types]
    if wrong:
        raise InvalidArgument(
            f"cells have the columns {', '.join(CELL_COLUMNS)}, and may have timestamp and op; "
            f"{wrong[0]!r} is {'not one of them' if wrong[0] in types else 'missing'}"
        )
