"""Limits hold together: what one bounds fits into what another allows."""

from __future__ import annotations

from stele.model import limits


def test_a_largest_cell_fits_into_a_batch() -> None:
    largest = limits.ROW_BYTES_MAX + limits.QUALIFIER_BYTES_MAX + limits.VALUE_BYTES_MAX
    assert largest < limits.BATCH_BYTES_MAX


def test_a_batch_stays_within_arrow_offsets() -> None:
    assert limits.BATCH_BYTES_MAX < 2**31
    assert limits.FAMILIES_MAX < 2**15


def test_all_limits_are_positive_numbers() -> None:
    values = [value for name, value in vars(limits).items() if name.isupper()]
    assert values
    assert all(isinstance(value, int) and value > 0 for value in values)
