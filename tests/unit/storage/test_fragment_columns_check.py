"""The deep check of columns files: writers that were wrong, and companions that do not belong."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from stele.errors import Corruption, NotFound
from stele.model.cells import Cell
from stele.storage import fragment_columns_file
from stele.storage.fragment_check import check_fragment
from stele.storage.fragment_columns_check import check_native_part
from stele.storage.fragment_columns_file import ColumnsFileWriter
from stele.storage.fragment_columns_format import NativePart
from stele.storage.fragment_columns_pivot import Piece, Placed
from stele.storage.fragment_summary import SummaryBuilder
from tests.unit.storage.columns_cases import SOME_COLUMNS, native, people, write_typed
from tests.unit.storage.fragment_cases import in_order, new_fs, path_of, to_blocks

ODD = Cell(b"row00003", "info", b"undeclared", 1, b"", txn=1)
OLD = Cell(b"row00004", "info", b"age", 2_000, b"not a number", txn=9)


def _native_twice(patch: pytest.MonkeyPatch) -> None:
    """A native cell stays in the companion too."""
    original = Placed._companion
    patch.setattr(Placed, "_companion", lambda self: (self.block,) if original(self) else ())


def _too_many_native(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        fragment_columns_file,
        "NativePart",
        lambda **fields: NativePart(**(fields | {"rows": fields["rows"] - 1})),
    )


def _not_complete(patch: pytest.MonkeyPatch) -> None:
    original = Placed.piece

    def piece(self: Placed, columns: list[object]) -> Piece:
        made = original(self, columns)  # type: ignore[arg-type]
        return Piece(made.native, made.cells, made.companion, made.differing, complete=True)

    patch.setattr(Placed, "piece", piece)


def _wrong_summary(patch: pytest.MonkeyPatch) -> None:
    original = ColumnsFileWriter.finish
    patch.setattr(
        ColumnsFileWriter,
        "finish",
        lambda self, summary, companion, complete: original(
            self, msgspec.structs.replace(summary, txn_max=1 << 40), companion, complete=complete
        ),
    )


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (_native_twice, "more or fewer cells than it says"),
        (_too_many_native, "its native part is not that of its cells"),
        (_not_complete, "but it says it is complete"),
        (_wrong_summary, "its summary is not that of its cells"),
    ],
)
def test_a_mistake_of_the_writer_is_found(
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None],
    said: str,
) -> None:
    fs = new_fs()
    with monkeypatch.context() as patched:
        mistake(patched)
        (info,) = write_typed(fs, in_order([*people(60), ODD, OLD]))
    with pytest.raises(Corruption, match=said):
        check_fragment(fs, path_of(info), info)


def test_damage_of_a_companion_is_found() -> None:
    fs = new_fs()
    (info,) = write_typed(fs, in_order([*people(60), ODD, OLD]))
    assert info.companion is not None
    assert check_fragment(fs, path_of(info), info) == info.summary
    path = path_of(info.companion)
    data = fs.read_all(path)
    fs.write_atomic(path, data[:10] + bytes([data[10] ^ 1]) + data[11:])
    with pytest.raises(Corruption, match="checksum"):
        check_fragment(fs, path_of(info), info)
    fs.delete(path)
    with pytest.raises(NotFound):
        check_fragment(fs, path_of(info), info)


def test_a_companion_of_another_file_is_found() -> None:
    fs = new_fs()
    (info,) = write_typed(fs, in_order([*people(60), ODD, OLD]))
    other = new_fs()
    (wrong,) = write_typed(other, in_order([*people(60), ODD]))
    assert info.companion is not None
    assert wrong.companion is not None
    fs.write_atomic(path_of(info.companion), other.read_all(path_of(wrong.companion)))
    with pytest.raises(Corruption):
        check_fragment(fs, path_of(info), info)


def test_what_a_file_says_of_its_own_part() -> None:
    builder = SummaryBuilder()
    (block,) = to_blocks(people(3))
    builder.add(block)
    found = builder.build()
    part = NativePart(
        columns=tuple(native(SOME_COLUMNS)),
        cells=found.cells,
        rows=3,
        first_row=b"row00000",
        last_row=b"row00002",
        complete=True,
    )
    check_native_part(part, found, "file")
    with pytest.raises(Corruption, match="native part"):
        check_native_part(msgspec.structs.replace(part, last_row=b"row00003"), found, "file")
