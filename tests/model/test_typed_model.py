"""The same store and model with declared columns: compactions write the columns layout.

Columns are declared, widened and dropped while the rules of the other machine go on. A compaction
takes the columns layout wherever one cell can be native, so that files of both layouts, companions
and odd cells are merged with each other all the time.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from stele.model.schema import Schema
from stele.storage import fragment_columns_writer
from stele.storage.fragment_check import check_fragment
from stele.storage.fragment_format import COLUMNS_LAYOUT
from tests.model.machine_base import COUNTS, FAMILIES, HISTORY, NOTHING, grouped, step
from tests.model.model_table import ModelTable
from tests.model.rules_writing import tables
from tests.model.test_embedded_model import EXAMPLES, SEED, STEPS, EmbeddedMachine

GATE_SHARE = 3
"""The gate takes one typed course for so many of the others."""

DECLARED = ({"f:q": "int32", "f:": "string"}, {"g:q": "binary"}, {"h:q": "int32", "g:": "bool"})
WIDER = {"int32": "int64", "string": "binary"}


class TypedMachine(EmbeddedMachine):
    """All rules, and those that change which columns are declared."""

    def __init__(self) -> None:
        self.checked: set[str] = set()
        super().__init__()

    def create(self, name: str) -> None:
        schema = Schema(grouped(0, None), {"f:q": "int32", "g:q": "string"}, history=HISTORY)
        self.backend.create_table(name, schema, [b"r3"])
        self.models[name] = ModelTable(schema)

    def value(self) -> bytes:
        """A value that was never written before: of 4 bytes, of 8, or text."""
        self.values += 1
        number = self.values
        return (b"v%d" % number, number.to_bytes(4, "big"), number.to_bytes(8, "big"))[number % 3]

    def redeclare(self, number: int, types: dict[str, str]) -> object:
        """Alter a table so that exactly these columns are declared."""
        name, table, _ = self.pick(number)
        if {str(c.column): c.type.name for c in table.schema.columns} == types:
            return NOTHING
        self.alter(name, Schema(table.schema.groups, types, history=table.schema.history_us))
        return None

    def declared(self, number: int) -> dict[str, str]:
        return {str(c.column): c.type.name for c in self.pick(number)[1].schema.columns}

    @step(number=tables, choice=st.sampled_from(DECLARED))
    def declare_columns(self, number: int, choice: dict[str, str]) -> object:
        served = {name: kind for name, kind in choice.items() if self.served(number, name[0])}
        return self.redeclare(number, served | self.declared(number))

    @step(number=tables)
    def widen_columns(self, number: int) -> object:
        declared = self.declared(number)
        return self.redeclare(number, {name: WIDER.get(k, k) for name, k in declared.items()})

    @step(number=tables, family=st.sampled_from(FAMILIES))
    def drop_columns(self, number: int, family: str) -> object:
        declared = self.declared(number)
        return self.redeclare(number, {n: k for n, k in declared.items() if n[0] != family})

    @step(number=tables, family=st.sampled_from(FAMILIES))
    def remove_family(self, number: int, family: str) -> object:
        """A family goes with its declared columns."""
        name, table, model = self.pick(number)
        schema = table.schema
        if len(schema.removed) >= len(FAMILIES) - 1 or family in schema.removed:
            return NOTHING
        if any(family in (group.families or ()) for group in schema.groups):
            return NOTHING
        kept = [column for column in schema.columns if column.column.family != family]
        self.alter(name, schema.replace(columns=kept, removed=(*schema.removed, family)))
        model.remove_family(family)
        return None

    def compacted(self, number: int) -> None:
        """Every columns file that a compaction wrote is what it says, its companion too."""
        super().compacted(number)
        fragments = self.backend.store.user.fragments
        for config in self.state(number).layout.tablets:
            for file in (reference.file for reference in config.references):
                if file.layout == COLUMNS_LAYOUT and file.name not in self.checked:
                    check_fragment(self.files, fragments.path(file.name), file)
                    self.checked.add(file.name)
                    COUNTS["columns_files"] += 1
                    COUNTS["companions"] += file.companion is not None


def test_typed_groups_do_what_the_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragment_columns_writer, "NATIVE_SHARE_MIN", 0)
    COUNTS.clear()
    chosen = settings(
        max_examples=max(1, EXAMPLES // GATE_SHARE),
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=False,
        database=None,
        print_blob=True,
        report_multiple_bugs=False,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(SEED)(TypedMachine), settings=chosen)
    finally:
        print({"seed": SEED, "steps": COUNTS.total(), **COUNTS})
    assert COUNTS["columns_files"] >= COUNTS["companions"] > 0
