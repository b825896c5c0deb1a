"""Options of a change feed through ``format("stele")``, in batches and as a stream.

A read with any of these options is a feed: it asks for changes, not for a state. Those of a plain
read that choose rows, columns, shape and names mean the same here.

``startingVersion`` and ``startingTimestamp`` name the first commit that is told, ``endingVersion``
and ``endingTimestamp`` the last; without a start a feed begins with all that is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from stele.client.changes import check_telling
from stele.client.table import Table
from stele.errors import InvalidArgument
from stele.model.clock import TXN_MAX
from stele.model.schema import Schema
from stele.spark.addresses import TableAddress
from stele.spark.options import CATALOG_PREFIX, READ_OPTIONS, ReadOptions, canonical, moment, number
from stele.spark.requests import ReadRequest
from stele.storage.change_counts import ChangeLimits
from stele.storage.change_lines import ChangeMode, ChangeTelling

STARTS = ("startingVersion", "startingTimestamp")
ENDS = ("endingVersion", "endingTimestamp")
LIMITS = ("maxRowsPerTrigger", "maxBytesPerTrigger")
FEED_OPTIONS = ("changes", *STARTS, *ENDS, *LIMITS)

OF_A_STATE = ("versionAsOf", "timestampAsOf", "minTimestamp", "maxTimestamp")
"""Options of reads that say nothing about changes."""

EARLIEST, LATEST = "earliest", "latest"

_FEED_NAMES = frozenset(name.lower() for name in FEED_OPTIONS)


class ChangeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which changes are asked for, and how they are told."""

    read: ReadRequest
    mode: ChangeMode = "net"

    def __post_init__(self) -> None:
        check_telling(self.mode, self.read.shape, self.read.spec.versions)

    def telling(self, schema: Schema) -> ChangeTelling:
        """How changes of a table with a schema are told."""
        spec = self.read.cell_spec(schema)
        if self.read.shape == "cells":
            return ChangeTelling(self.mode, spec)
        lines = self.read.converter(schema)
        return ChangeTelling(self.mode, spec, lines.convert, lines.arrow_schema)


def is_feed(options: Mapping[str, str]) -> bool:
    """Whether options ask for changes."""
    return any(name.lower().removeprefix(CATALOG_PREFIX) in _FEED_NAMES for name in options)


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options of one feed, each checked by itself."""

    given: Mapping[str, str]

    @staticmethod
    def of(options: Mapping[str, str]) -> ChangeOptions:
        """Options as Spark hands them over, before it says whether they are of a stream."""
        given = canonical(options, (*READ_OPTIONS, *FEED_OPTIONS), "reads changes with")
        for name in OF_A_STATE:
            if name in given:
                raise InvalidArgument(
                    f"the option {name!r} is for reads of a state, a feed of changes has "
                    f"{', '.join((*STARTS, *ENDS))}"
                )
        for one, other in (STARTS, ENDS):
            if one in given and other in given:
                raise InvalidArgument(f"the options {one!r} and {other!r} contradict: give one")
        return ChangeOptions(given)

    @staticmethod
    def parse(options: Mapping[str, str], *, streaming: bool) -> ChangeOptions:
        """Those of a stream, or of a batch."""
        found = ChangeOptions.of(options)
        for name in ENDS if streaming else LIMITS:
            if name in found.given:
                raise InvalidArgument(
                    f"the option {name!r} is for {'batches' if streaming else 'streams'} of "
                    f"changes: {'a stream goes on' if streaming else 'a batch has all of them'}"
                )
        return found

    @property
    def address(self) -> TableAddress:
        """Which table."""
        return self._read.address

    @property
    def lease_us(self) -> int:
        """How long a feed that stopped is not forgotten."""
        return self._read.lease_us

    @property
    def metadata(self) -> dict[str, str]:
        """What the first field of the schema carries for readers that get no options."""
        return self._read.metadata()

    @property
    def _read(self) -> ReadOptions:
        return ReadOptions(self.given)

    def request(self) -> ChangeRequest:
        """What is asked for, but for the txns."""
        mode = self.given.get("changes", "net")
        shape = "cells" if mode == "all" else "rows"
        read = ReadOptions({"shape": shape, **self.given}).request()
        return ChangeRequest(read=read, mode=mode)  # type: ignore[arg-type]  # checked there

    def since(self, table: Table) -> int:
        """The txn after which changes are told; 0 is the beginning."""
        text = self.given.get("startingVersion", EARLIEST)
        if "startingTimestamp" in self.given:
            first = moment("startingTimestamp", self.given["startingTimestamp"])
        elif text == EARLIEST:
            return 0
        elif text == LATEST:
            return table.core.backend.look_for_changes(0)[0]
        else:
            first = _txn("startingVersion", text, f"{EARLIEST}, {LATEST} or ")
        return max(0, _checked(STARTS, self.given, first) - 1)

    def until(self) -> int | None:
        """The last txn that is told; ``None`` for now."""
        if "endingTimestamp" in self.given:
            last = moment("endingTimestamp", self.given["endingTimestamp"])
        elif "endingVersion" in self.given:
            last = _txn("endingVersion", self.given["endingVersion"])
        else:
            return None
        return _checked(ENDS, self.given, last)

    def limits(self) -> ChangeLimits:
        """How much one batch of a stream may have."""
        found = [number(name, self.given.get(name)) for name in LIMITS]
        for name, limit in zip(LIMITS, found, strict=True):
            if limit is not None and limit < 1:
                raise InvalidArgument(f"{name} is a number from 1, not {limit}")
        return ChangeLimits(*found)


def _txn(name: str, text: str, others: str = "") -> int:
    if not text.isdigit():
        raise InvalidArgument(f"{name} is {others}a txn, not {text!r:.80}")
    return int(text)


def _checked(names: tuple[str, str], given: Mapping[str, str], txn: int) -> int:
    if not 0 <= txn <= TXN_MAX:
        name = next(name for name in names if name in given)
        raise InvalidArgument(f"{name} {given[name]!r:.80} is not within 0 and {TXN_MAX}")
    return txn
