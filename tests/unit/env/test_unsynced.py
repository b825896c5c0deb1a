"""The sector model of unsynced writes, against a plain replay of the writes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.unsynced import SECTOR_BYTES, Change, UnsyncedFile

S = SECTOR_BYTES


def appends(synced: int, sizes: list[int]) -> list[Change]:
    changes, end = [], synced
    for number, size in enumerate(sizes, start=1):
        changes.append(Change(end, bytes([number]) * size, end + size))
        end += size
    return changes


def replayed(synced: bytes, changes: list[Change]) -> bytes:
    content = bytearray(synced)
    for change in changes:
        content[change.offset : change.offset + len(change.data)] = change.data
        del content[change.end :]
    return bytes(content)


def test_lost_and_kept() -> None:
    file = UnsyncedFile(b"synced", appends(6, [10, 2000]))
    assert file.after(0) == b"synced"
    assert file.after(1) == b"synced" + b"\1" * 10
    assert file.after(-1) == b"synced" + b"\1" * 10 + b"\2" * 2000


def test_writes_that_share_a_sector_are_ordered_in_it() -> None:
    file = UnsyncedFile(b"", appends(0, [100, 100]))
    assert [len(sector.contents) for sector in file.sectors] == [3]
    assert file.sectors[0].contents[2] == (b"\1" * 100 + b"\2" * 100).ljust(S, b"\0")


def test_sectors_are_independent() -> None:
    # The drawing of the module: three appends over three sectors, persisted in no order.
    file = UnsyncedFile(b"", appends(0, [S // 2, S, S // 2 + 100]))
    early_late_never = file.assemble(file.lengths[-1], [1, 2, 0])
    assert early_late_never == (
        (b"\1" * (S // 2)).ljust(S, b"\0") + b"\2" * (S // 2) + b"\3" * (S // 2) + bytes(100)
    )


def test_a_torn_write_ends_at_a_sector() -> None:
    file = UnsyncedFile(b"x" * 100, appends(100, [3 * S]))
    assert file.torn(1, 0) == b"x" * 100
    assert file.torn(1, 1) == b"x" * 100 + b"\1" * (S - 100)
    assert file.torn(1, 2) == b"x" * 100 + b"\1" * (2 * S - 100)
    assert file.torn(1, 4) == file.after(1)


def test_a_torn_write_may_have_its_full_length() -> None:
    file = UnsyncedFile(b"x" * 100, appends(100, [3 * S]))
    assert file.torn(1, 1, extended=True) == (b"x" * 100 + b"\1" * (S - 100)).ljust(
        100 + 3 * S, b"\0"
    )


def test_what_was_cut_off_may_come_back() -> None:
    changes = [Change(0, b"p" * 300, 300), Change(0, b"", 0), Change(0, b"q" * 100, 100)]
    file = UnsyncedFile(b"", changes)
    assert file.lengths == [0, 300, 0, 100]
    assert file.after(-1) == b"q" * 100
    assert file.assemble(300, [1]) == b"p" * 300
    assert file.assemble(300, [2]) == b"q" * 100 + b"p" * 200, "the page still held the old bytes"


def test_states_are_counted() -> None:
    file = UnsyncedFile(b"", appends(0, [S, S, 10]))
    assert file.state_count() == 4 * 2 * 2 * 2
    assert UnsyncedFile(b"abc", []).state_count() == 1
    assert UnsyncedFile(b"abc", []).state(0) == b"abc"


def test_states_are_numbered() -> None:
    file = UnsyncedFile(b"", appends(0, [S, S]))
    states = [file.state(number) for number in range(file.state_count())]
    zeros, one, two = bytes(S), b"\1" * S, b"\2" * S
    assert set(states) == {b"", zeros, one, zeros + zeros, one + zeros, zeros + two, one + two}


@settings(max_examples=200)
@given(st.integers(0, 3 * S), st.lists(st.integers(0, 3 * S), max_size=6), st.booleans(), st.data())
def test_synced_bytes_survive_and_unsynced_ones_are_never_made_up(
    synced_length: int, sizes: list[int], is_cut: bool, data: st.DataObject
) -> None:
    synced = b"\xff" * synced_length
    changes = appends(synced_length, sizes)
    if changes and is_cut:
        end = data.draw(st.integers(synced_length, changes[-1].end))
        changes.append(Change(end, b"", end))
        changes.append(Change(end, b"\x77" * 50, end + 50))
    file = UnsyncedFile(synced, changes)
    for count in range(len(changes) + 1):
        assert file.after(count) == replayed(synced, changes[:count])
    versions = [data.draw(st.integers(0, len(s.contents) - 1)) for s in file.sectors]
    length = data.draw(st.sampled_from(file.lengths))
    survived = file.assemble(length, versions)
    assert len(survived) == length
    assert survived[:synced_length] == synced
    for at in range(synced_length, length):
        written = {
            c.data[at - c.offset] for c in changes if c.offset <= at < c.offset + len(c.data)
        }
        assert survived[at] in written | {0}
