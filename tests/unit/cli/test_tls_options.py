"""The options that name certificates."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import pytest

from stele.cli.tls_options import add_tls, tls_files
from stele.errors import InvalidArgument
from stele.rpc import TlsFiles


def files_of(*words: str) -> TlsFiles | None:
    parser = ArgumentParser()
    add_tls(parser)
    return tls_files(parser.parse_args(words))


def test_all_or_nothing() -> None:
    assert files_of() is None
    three = ("--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a")
    assert files_of(*three) == TlsFiles(Path("c"), Path("k"), Path("a"))
    assert files_of(*three, "--tls-revoked", "r") == TlsFiles(
        Path("c"), Path("k"), Path("a"), Path("r")
    )
    with pytest.raises(InvalidArgument, match="--tls-key, --tls-ca"):
        files_of("--tls-cert", "c")
    with pytest.raises(InvalidArgument, match="--tls-revoked needs"):
        files_of("--tls-revoked", "r")
