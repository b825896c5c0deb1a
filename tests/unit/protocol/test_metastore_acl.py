"""Messages about access rules."""

from __future__ import annotations

import msgspec

from stele.protocol.metastore_acl import AccessRule, AclResponse, DirectoryRules, SetAclRequest
from stele.protocol.metastore_values import Identity


def test_a_rule_is_a_short_array() -> None:
    rule = AccessRule("client/a", "rl")
    assert msgspec.msgpack.encode(rule) == b"\x92\xa8client/a\xa2rl"


def test_rules_are_read_back() -> None:
    rule = AccessRule("*", "r")
    request = SetAclRequest(Identity(1, 2, 0), "/a/", (rule,), ())
    answer = AclResponse(True, (DirectoryRules("/a/", (rule,)),))
    for message in (request, answer):
        data = msgspec.msgpack.encode(message)
        assert msgspec.msgpack.decode(data, type=type(message)) == message
