"""Keys are secret, certificates are read again, revoked ones are known."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from stele.errors import InvalidArgument, Unauthenticated
from stele.rpc.identity import PeerIdentity, Proof, Role
from stele.rpc.tls import Credentials, TlsFiles, check_key_file, holder_of
from tests.unit.rpc.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def certificate(*uris: str, serial: str = "0A") -> dict[str, object]:
    names = [("DNS", "stele://c1/admin/root"), *(("URI", uri) for uri in uris)]
    return {"subjectAltName": tuple(names), "serialNumber": serial}


def test_contexts_demand_tls_13_and_certificates_on_both_sides(authority: Authority) -> None:
    credentials = authority.credentials("m1", Role.METASTORE)
    for context in (credentials.server_context, credentials.client_context):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_3
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.options & ssl.OP_NO_TICKET


def test_the_floor_may_be_tls_12_and_no_less(authority: Authority) -> None:
    files = authority.issue("m1", Role.METASTORE)
    floor = Credentials(files, version_floor=ssl.TLSVersion.TLSv1_2)
    assert floor.server_context.minimum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(InvalidArgument, match="TLSv1_1"):
        Credentials(files, version_floor=ssl.TLSVersion.TLSv1_1)


def test_a_host_name_is_checked_where_one_is_given(authority: Authority) -> None:
    files = authority.issue("m1", Role.METASTORE)
    assert not Credentials(files).client_context.check_hostname
    assert Credentials(files, server_hostname="m1.example.org").client_context.check_hostname


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o610])
def test_a_key_that_others_can_touch_is_refused(authority: Authority, mode: int) -> None:
    files = authority.issue("m1", Role.METASTORE)
    files.key.chmod(mode)
    with pytest.raises(InvalidArgument, match=f"{mode:04o}; it must be 0600"):
        Credentials(files)


def test_a_key_of_another_user_is_refused(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = authority.issue("m1", Role.METASTORE)
    check_key_file(files.key)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(InvalidArgument, match="not to 54321"):
        check_key_file(files.key)


@pytest.mark.parametrize("missing", ["certificate", "key", "authority"])
def test_missing_and_broken_files_are_named(authority: Authority, missing: str) -> None:
    files = authority.issue("m1", Role.METASTORE)
    path: Path = getattr(files, missing)
    path.write_bytes(b"not PEM")
    with pytest.raises(InvalidArgument, match="do not load"):
        Credentials(files)
    path.unlink()
    with pytest.raises(InvalidArgument, match=path.name):
        Credentials(files)


def test_a_key_of_another_certificate_is_refused(authority: Authority) -> None:
    one, other = authority.issue("a", Role.MASTER), authority.issue("b", Role.MASTER)
    with pytest.raises(InvalidArgument, match="do not load"):
        Credentials(TlsFiles(one.certificate, other.key, one.authority))


def test_changed_files_are_loaded_and_bad_ones_leave_the_old(authority: Authority) -> None:
    files = authority.issue("m1", Role.METASTORE)
    credentials = Credentials(files)
    first = credentials.server_context
    assert not credentials.reload()
    assert credentials.server_context is first
    good = files.key.read_bytes()
    files.key.write_bytes(b"half writ")
    with pytest.raises(InvalidArgument):
        credentials.reload()
    assert credentials.server_context is first
    files.key.write_bytes(good)
    assert credentials.reload()
    assert credentials.server_context is not first


def test_the_identity_is_the_uri_and_nothing_else(authority: Authority) -> None:
    credentials = authority.credentials("m1", Role.METASTORE)
    found = credentials.identify(certificate("stele://c1/tablet/t7"))
    assert found == PeerIdentity(frozenset({Role.TABLET}), "t7", Proof.CERTIFICATE, "c1", "0A")
    for nothing in (None, {}, certificate()):
        with pytest.raises(Unauthenticated):
            credentials.identify(nothing)


def test_revoked_serials_are_refused_from_the_next_reload_on(
    authority: Authority, tmp_path: Path
) -> None:
    revoked = tmp_path / "revoked.txt"
    revoked.write_text("# nobody yet\n\n")
    credentials = Credentials(authority.issue("m1", Role.METASTORE, revoked=revoked))
    identity = credentials.identify(certificate("stele://c1/client/eve", serial="0B"))
    assert not credentials.is_revoked(identity)
    revoked.write_text("# eve left\n0b  # laptop\nFF\n")
    credentials.reload()
    assert credentials.is_revoked(identity)
    with pytest.raises(Unauthenticated, match="revoked"):
        credentials.identify(certificate("stele://c1/client/eve", serial="0B"))
    credentials.identify(certificate("stele://c1/client/ada", serial="0C"))


@pytest.mark.parametrize("text", ["xyz", "0A 0B", "Ä"])
def test_a_revocation_file_that_cannot_be_read_is_refused(
    authority: Authority, tmp_path: Path, text: str
) -> None:
    revoked = tmp_path / "revoked.txt"
    revoked.write_text(text)
    with pytest.raises(InvalidArgument, match=r"revoked\.txt"):
        Credentials(authority.issue("m1", Role.METASTORE, revoked=revoked))


def test_a_process_can_read_what_its_own_certificate_says(authority: Authority) -> None:
    holder = holder_of(authority.issue("m1", Role.METASTORE, Role.MASTER).certificate)
    assert holder.roles == {Role.METASTORE, Role.MASTER}
    assert (holder.cluster, holder.name) == ("c1", "m1")
    with pytest.raises(Unauthenticated, match="no stele: URI"):
        holder_of(authority.path)
    with pytest.raises(InvalidArgument, match="m2"):
        holder_of(authority.issue("m2", Role.CLIENT).key)
