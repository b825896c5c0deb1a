"""A stranger cannot fill the log."""

from __future__ import annotations

import logging
import ssl

import pytest

from stele.errors import Unauthenticated
from stele.rpc.refusal_log import KINDS_MAX, PERIOD_S, RefusalLog, kind_of

LOG = logging.getLogger("stele.test.refusals")


def test_the_first_is_written_and_the_rest_of_a_second_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = RefusalLog(LOG)
    for number in range(50):
        refusals.warn("tls", f"refused {number}", 7.0 + number / 1000)
    refusals.warn("other", "refused for another reason", 7.01)
    refusals.warn("tls", "refused again", 7.0 + PERIOD_S)
    refusals.warn("tls", "refused later", 7.0 + 2 * PERIOD_S)
    assert caplog.messages == [
        "refused 0",
        "refused for another reason",
        "refused again (and 49 more like it before)",
        "refused later",
    ]


def test_kinds_that_somebody_invents_share_one_line(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog(LOG)
    for number in range(3 * KINDS_MAX):
        refusals.warn(f"kind {number}", "refused", 1.0)
    assert len(caplog.messages) == KINDS_MAX + 1


def test_errors_of_one_cause_are_of_one_kind() -> None:
    verify = ssl.SSLError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    verify.reason = "CERTIFICATE_VERIFY_FAILED"
    assert kind_of(verify) == "CERTIFICATE_VERIFY_FAILED"
    assert kind_of(ssl.SSLError("nothing known")) == "SSLError"
    assert kind_of(Unauthenticated("no URI")) == kind_of(Unauthenticated("revoked"))
