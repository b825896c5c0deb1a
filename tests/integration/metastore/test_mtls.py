"""Nodes and clients that prove who they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stele
from stele.errors import PermissionDenied, Unauthenticated
from stele.rpc import Role, TlsFiles
from tests.integration.metastore.processes import three_nodes
from tests.unit.rpc.certificates import Authority


def run(*words: str, tls: TlsFiles) -> tuple[int, str]:
    """How a command ended, and what it complained of."""
    files = ("--tls-cert", tls.certificate, "--tls-key", tls.key, "--tls-ca", tls.authority)
    done = subprocess.run(
        [sys.executable, "-m", "stele", *words, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_a_group_with_certificates(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    tls = {number: authority.issue(f"m{number}", Role.METASTORE) for number in range(3)}
    tls[3] = authority.issue("operator", Role.ADMIN)
    user = authority.issue("user", Role.CLIENT)
    with three_nodes(tmp_path, tls) as nodes:
        with nodes.connect(tls=tls[3]) as admin:
            admin.put("/a", b"1")
            assert len(admin.admin.members()) == 3
        with nodes.connect(tls=user, role=Role.CLIENT) as client:
            assert client.get("/a").value == b"1"  # type: ignore[union-attr]
            with pytest.raises(PermissionDenied):
                client.admin.transfer()
        for own, code in ((tls[3], 0), (user, 1)):
            assert run("metastore", "get", "/a", "--at", nodes.addresses[0], tls=own)[0] == 0
            moved = run("metastore", "members", "transfer", "--at", nodes.addresses[0], tls=own)
            assert moved[0] == code, "the certificate says what a command may do"
        wrong = stranger.issue("user", Role.CLIENT, trusted=authority.path)
        for files, check in ((wrong, "refuses this certificate"), (None, "may speak TLS only")):
            with (
                stele.metastore.connect(nodes.addresses, tls=files) as nobody,
                pytest.raises(Unauthenticated, match=rf"before its hello, \d+ times.*{check}"),
            ):
                nobody.get("/a", timeout=600)
        code, said = run("metastore", "get", "/a", "--at", nodes.addresses[0], tls=wrong)
        assert code == 1
        assert "--tls-cert" in said


def test_a_node_with_the_certificate_of_a_client_does_not_start(tmp_path: Path) -> None:
    user = Authority(tmp_path).issue("user", Role.CLIENT)
    words = ("--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0", "--bootstrap")
    code, said = run("serve", "master", *words, tls=user)
    assert code == 2
    assert "client/user" in said
    assert "stele://CLUSTER/metastore/NAME" in said
    assert not (tmp_path / "d").exists()


def test_without_certificates_only_this_machine_is_served(tmp_path: Path) -> None:
    words = ["--data", str(tmp_path / "d"), "--listen", "0.0.0.0:0", "--bootstrap"]
    done = subprocess.run(
        [sys.executable, "-m", "stele", "serve", "master", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "without TLS" in done.stderr
    assert "Traceback" not in done.stderr
