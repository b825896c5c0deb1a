"""Identities of requests: what is accepted, and how their numbers are stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.request_identity import (
    CLIENT_BYTES_MAX,
    SEQUENCE_MAX,
    RequestIdentity,
    check_identity,
    decode_sequence,
    encode_sequence,
)


@given(st.binary(min_size=1, max_size=CLIENT_BYTES_MAX), st.integers(0, SEQUENCE_MAX))
def test_an_identity_is_a_pair(client: bytes, sequence: int) -> None:
    assert check_identity((client, sequence)) == RequestIdentity(client, sequence)
    assert decode_sequence(encode_sequence(sequence)) == sequence


@pytest.mark.parametrize(
    "identity", [(b"", 1), ("text", 1), (b"a", -1), (b"a", SEQUENCE_MAX + 1), (b"a", "1")]
)
def test_what_is_no_identity_is_refused(identity: tuple[object, object]) -> None:
    with pytest.raises(InvalidArgument):
        check_identity(identity)


def test_a_long_name_is_refused_with_the_limit() -> None:
    with pytest.raises(LimitExceeded, match="65 bytes, the limit is 64"):
        check_identity((bytes(CLIENT_BYTES_MAX + 1), 1))


def test_a_foreign_value_is_no_number() -> None:
    assert decode_sequence(b"short") is None
