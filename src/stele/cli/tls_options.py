"""The options that name certificates, the same for every command that needs them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from stele.errors import InvalidArgument
from stele.rpc import TlsFiles


def add_tls(parser: ArgumentParser) -> None:
    """Certificate, key, authority and revoked serial numbers."""
    group = parser.add_argument_group(
        "TLS", "needed for addresses other than those of this machine; all files in PEM"
    )
    group.add_argument("--tls-cert", metavar="FILE", help="our certificate with its chain")
    group.add_argument("--tls-key", metavar="FILE", help="its key, readable by nobody else")
    group.add_argument("--tls-ca", metavar="FILE", help="the authorities that we trust")
    group.add_argument("--tls-revoked", metavar="FILE", help="serial numbers we trust no longer")


def tls_files(arguments: Namespace) -> TlsFiles | None:
    """What the options name; None without them."""
    given = {
        "--tls-cert": arguments.tls_cert,
        "--tls-key": arguments.tls_key,
        "--tls-ca": arguments.tls_ca,
    }
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == len(given):
        if arguments.tls_revoked is not None:
            raise InvalidArgument("--tls-revoked needs --tls-cert, --tls-key and --tls-ca")
        return None
    if missing:
        raise InvalidArgument(f"TLS needs {', '.join(missing)} as well")
    revoked = None if arguments.tls_revoked is None else Path(arguments.tls_revoked)
    return TlsFiles(
        Path(arguments.tls_cert), Path(arguments.tls_key), Path(arguments.tls_ca), revoked
    )
