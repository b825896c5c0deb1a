"""Whole METAs as values: valid ones from a seed, and every damage that can be planted in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from stele.model.column_set import ALL_COLUMNS
from stele.model.ranges import RowRange
from stele.storage.fragment_format import Erasures, FragmentInfo, FragmentSummary, IndexPointer
from stele.storage.references import FlushMark, Reference
from stele.tablet.changes import SplitTablet
from stele.tablet.check.facts import FileFacts, StoreFacts
from stele.tablet.check.findings import Kind
from stele.tablet.config import ConfigEdit, TabletConfig

CLOCK = 1_000
Found = tuple[Kind, str, str]
"""Kind, table and subject of a finding."""


def info(number: int, first: bytes = b"a", last: bytes = b"z", *, txn: int = 5) -> FragmentInfo:
    summary = FragmentSummary(
        cells=2,
        rows=1 if first == last else 2,
        first_row=first,
        last_row=last,
        families=("f",),
        txn_min=txn,
        txn_max=txn,
        put_timestamps=(1, 1),
        erasures=Erasures(),
        versions_max=1,
    )
    index = IndexPointer(10, 20, number)
    return FragmentInfo(name=f"s1-{number:08}.parquet", size=100, index=index, summary=summary)


def tablet(
    number: int,
    start: bytes = b"",
    end: bytes | None = None,
    *files: FragmentInfo,
    table: str = "t1",
) -> TabletConfig:
    rows = RowRange(start, end)
    return TabletConfig(
        f"{table}.{number}",
        table,
        rows,
        references=tuple(Reference(file, rows) for file in files),
        marks=(FlushMark(rows, ALL_COLUMNS, 5),),
        log="log/s1",
        clock=CLOCK,
    )


def store_of(*tablets: TabletConfig, **changes: object) -> StoreFacts:
    """Facts in which everything the tablets speak of is there."""
    files = {ref.file.name: FileFacts(ref.file.size) for t in tablets for ref in t.references}
    facts = StoreFacts(
        tables={t.table: f"name of {t.table}" for t in tablets},
        tablets=tablets,
        files=files,
        logs={t.log: None for t in tablets if t.log is not None},
    )
    return replace(facts, **changes)  # type: ignore[arg-type]


def valid_tables(seed: int) -> list[list[TabletConfig]]:
    """Some tables that were split here and there, as their history would have left them."""
    random = Random(seed)
    numbers = iter(range(1, 1_000))
    tables = []
    for place in range(random.randint(1, 3)):
        name = f"t{place}"
        files = [_random_file(random, next(numbers)) for _ in range(random.randint(0, 4))]
        whole = tablet(0, b"", None, *files, table=name)
        tables.append(_split_often(random, whole))
    return tables


def _random_file(random: Random, number: int) -> FragmentInfo:
    first, last = sorted(bytes([random.randint(97, 122)]) for _ in range(2))
    return info(number, first, last)


def _split_often(random: Random, whole: TabletConfig) -> list[TabletConfig]:
    tablets = [whole]
    for number in range(random.randint(0, 4)):
        chosen = random.choice(tablets)
        row = bytes(random.choices(b"abcxyz\x00\xff", k=random.randint(1, 3)))
        if chosen.rows.contains(row) and row != chosen.rows.start:
            tablets.remove(chosen)
            tablets += split(chosen, row, f"{whole.table}.{number}")
    return tablets


def split(config: TabletConfig, row: bytes, name: str) -> tuple[TabletConfig, ...]:
    """Both halves of a tablet."""
    edit = SplitTablet(config.id, row, f"{name}l", f"{name}u").apply({config.id: config})
    assert isinstance(edit, ConfigEdit)
    return edit.written


@dataclass
class Damaged:
    """A table on its way to damage, and what a check has to say of it."""

    table: str
    tablets: list[TabletConfig]
    expected: set[Found] = field(default_factory=set)
    change: Callable[[StoreFacts], StoreFacts] = lambda facts: facts
    """What is done to the rest of the facts."""

    def expect(self, kind: Kind, subject: str) -> None:
        self.expected.add((kind, self.table, subject))

    def exchange(self, old: TabletConfig, *new: TabletConfig) -> None:
        self.tablets.remove(old)
        self.tablets += new


def own_file(table: Damaged, last: bytes = b"z", txn: int = 5) -> FragmentInfo:
    """A file that nothing else in the store refers to."""
    return info(9_000 + int(table.table[1:]), last=last, txn=txn)


def in_rows(tablets: list[TabletConfig]) -> list[TabletConfig]:
    return sorted(tablets, key=lambda t: t.rows.start)


def lose_a_tablet(random: Random, table: Damaged) -> None:
    ordered = in_rows(table.tablets)
    place = random.randrange(len(ordered))
    table.tablets.remove(ordered[place])
    if len(ordered) == 1:
        table.expect(Kind.NO_TABLETS, table.table)
    elif place == len(ordered) - 1:
        table.expect(Kind.NO_LAST_TABLET, table.table)
    else:
        kind = Kind.GAP if place else Kind.FIRST_ROW_NOT_EMPTY
        table.expect(kind, ordered[place + 1].id)


def _divided(random: Random, table: Damaged) -> tuple[TabletConfig, TabletConfig, TabletConfig]:
    whole = random.choice(table.tablets)
    row = whole.rows.start + b"\x00"
    if whole.rows.end is not None and row >= whole.rows.end:
        whole = next(t for t in table.tablets if t.rows.end is None)
        row = whole.rows.start + b"\x00"
    lower, upper = split(whole, row, f"{table.table}.half")
    return whole, lower, upper


def save_only_the_lower_half(random: Random, table: Damaged) -> None:
    """M24, M27."""
    _, lower, _ = _divided(random, table)
    table.tablets.append(lower)
    table.expect(Kind.HALF_SPLIT, lower.id)


def save_only_the_upper_half(random: Random, table: Damaged) -> None:
    """M24, M28."""
    whole, lower, upper = _divided(random, table)
    table.exchange(whole, upper)
    kind = Kind.GAP if lower.rows.start else Kind.FIRST_ROW_NOT_EMPTY
    table.expect(kind, upper.id)


def let_halves_diverge(random: Random, table: Damaged) -> None:
    """M22: the lower half lives on although the whole is still there."""
    _, lower, _ = _divided(random, table)
    own = Reference(own_file(table, last=b"\xff\xff\xff\xff"), lower.rows)
    table.tablets.append(replace(lower, references=(*lower.references, own)))
    table.expect(Kind.OVERLAP, lower.id)


def use_an_id_twice(random: Random, table: Damaged) -> None:
    whole, lower, upper = _divided(random, table)
    table.exchange(whole, lower, replace(upper, id=lower.id))
    table.expect(Kind.DUPLICATE_ID, lower.id)


def reach_outside(random: Random, table: Damaged) -> None:
    whole, lower, upper = _divided(random, table)
    reference = Reference(own_file(table), RowRange(upper.rows.start, upper.rows.end))
    table.exchange(whole, replace(lower, references=(*lower.references, reference)), upper)
    table.expect(Kind.REFERENCE_OUTSIDE, lower.id)


def mark_outside(random: Random, table: Damaged) -> None:
    whole, lower, upper = _divided(random, table)
    mark = FlushMark(upper.rows, ALL_COLUMNS, 4)
    table.exchange(whole, replace(lower, marks=(*lower.marks, mark)), upper)
    table.expect(Kind.MARK_OUTSIDE, lower.id)


def mark_the_future(random: Random, table: Damaged) -> None:
    config = random.choice(table.tablets)
    mark = FlushMark(config.rows, ALL_COLUMNS, CLOCK + 1)
    table.exchange(config, replace(config, marks=(mark,)))
    table.expect(Kind.AHEAD_OF_CLOCK, config.id)


def refer_to_the_future(random: Random, table: Damaged) -> None:
    config = random.choice(table.tablets)
    reference = Reference(own_file(table, txn=CLOCK + 1), config.rows)
    table.exchange(config, replace(config, references=(*config.references, reference)))
    table.expect(Kind.AHEAD_OF_CLOCK, config.id)


def lose_the_log(random: Random, table: Damaged) -> None:
    config = random.choice(table.tablets)
    table.exchange(config, replace(config, log="log/gone"))
    table.expect(Kind.MISSING_LOG, "log/gone")
    table.change = lambda facts: replace(
        facts, logs={log: wrong for log, wrong in facts.logs.items() if log != "log/gone"}
    )


def damage_the_log(random: Random, table: Damaged) -> None:
    config = random.choice(table.tablets)
    table.exchange(config, replace(config, log="log/bad"))
    table.expect(Kind.DAMAGED_LOG, "log/bad")
    table.change = lambda facts: replace(facts, logs={**facts.logs, "log/bad": "a bit flipped"})


def _with_a_file(random: Random, table: Damaged) -> FragmentInfo:
    config = random.choice(table.tablets)
    file = own_file(table)
    table.exchange(config, replace(config, references=(Reference(file, config.rows),)))
    return file


def lose_a_file(random: Random, table: Damaged) -> None:
    file = _with_a_file(random, table)
    table.expect(Kind.MISSING_FILE, file.name)
    table.change = lambda facts: replace(
        facts, files={name: f for name, f in facts.files.items() if name != file.name}
    )


def spoil_a_file(
    kind: Kind, spoiled: Callable[[FragmentInfo], FileFacts]
) -> Callable[[Random, Damaged], None]:
    def spoil(random: Random, table: Damaged) -> None:
        file = _with_a_file(random, table)
        table.expect(kind, file.name)
        table.change = lambda store: replace(store, files={**store.files, file.name: spoiled(file)})

    spoil.__name__ = f"leave_{kind.name.lower()}"
    return spoil


def forget_in_the_catalog(_random: Random, table: Damaged) -> None:
    table.expect(Kind.UNKNOWN_TABLE, table.table)
    table.change = lambda facts: replace(
        facts, tables={t: name for t, name in facts.tables.items() if t != table.table}
    )


DAMAGES: tuple[Callable[[Random, Damaged], None], ...] = (
    lose_a_tablet,
    save_only_the_lower_half,
    save_only_the_upper_half,
    let_halves_diverge,
    use_an_id_twice,
    reach_outside,
    mark_outside,
    mark_the_future,
    refer_to_the_future,
    lose_the_log,
    damage_the_log,
    lose_a_file,
    spoil_a_file(Kind.SHORT_FILE, lambda _: FileFacts(99)),
    spoil_a_file(Kind.WRONG_FILE, lambda _: FileFacts(101)),
    spoil_a_file(Kind.WRONG_FILE, lambda file: FileFacts(100, {file.index: "another file"})),
    spoil_a_file(Kind.DAMAGED_FILE, lambda _: FileFacts(100, damage="row group 3")),
    forget_in_the_catalog,
)
