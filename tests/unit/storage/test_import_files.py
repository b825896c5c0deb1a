"""Names and lists of files that bulk writers and owners exchange."""

from __future__ import annotations

import pytest

from stele.errors import Corruption, InvalidArgument
from stele.storage.import_files import (
    check_job,
    decode_files,
    encode_files,
    token_of,
    writer_names,
)
from tests.unit.tablet.engine_support import cell, fragment, new_store


def test_no_two_attempts_write_the_same_file() -> None:
    names = [writer_names("i01", part, attempt)() for part in (0, 1, 10) for attempt in (0, 11)]
    assert len(set(names)) == len(names)
    assert {token_of(name) for name in names} == {"i01"}


def test_a_list_of_files_travels() -> None:
    info = fragment(new_store(), [cell(b"a")])
    assert decode_files(encode_files([info])) == (info,)
    assert decode_files(encode_files(())) == ()
    with pytest.raises(Corruption, match="list of fragment files"):
        decode_files(b"\xc1")


def test_names_of_jobs() -> None:
    assert check_job("load 2026-01-01/ä") == "load 2026-01-01/ä"
    for bad in ("", "é" * 101, "tab\t"):
        with pytest.raises(InvalidArgument):
            check_job(bad)
