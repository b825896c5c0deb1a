from __future__ import annotations

import msgspec
import pytest

from stele.protocol import table_jobs as jobs
from stele.protocol.tables import FRAME_BYTES_MAX, TABLES


@pytest.mark.parametrize(
    "message",
    [
        jobs.PinTable("t", 5, at=7, name="n"),
        jobs.PinnedPlan(b"\x00plan"),
        jobs.ChangesFound(9, changed=True),
        jobs.PinChanges("t", 3, 5, until=8),
        jobs.PinName("t", "lease", 5),
        jobs.ImportBegun("j", "token", "place", -4, txn=9),
        jobs.ImportFiles("t", "j", "token", b"files", writer="w", sequence=3, columns=b"c"),
        jobs.NumberedBatch("t", "w", 1 << 62),
        jobs.LastNumbered(),
    ],
)
def test_a_message_survives_the_wire(message: msgspec.Struct) -> None:
    data = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(data, type=type(message)) == message


def test_jobs_are_methods_of_the_table_service() -> None:
    numbers = {method.number for method in TABLES.methods()}
    assert {jobs.PIN.number, jobs.COMMIT_IMPORT.number, jobs.LAST_NUMBERED.number} <= numbers


def test_the_files_of_a_large_import_fit_into_a_request() -> None:
    assert jobs.COMMIT_IMPORT.request_bytes_max == FRAME_BYTES_MAX
    assert jobs.APPLY_NUMBERED.takes_attachments


def test_a_number_that_is_none_is_refused() -> None:
    data = msgspec.msgpack.encode({"table": "t", "writer": "w", "sequence": "first"})
    with pytest.raises(msgspec.ValidationError):
        jobs.APPLY_NUMBERED.decode_request(data)
