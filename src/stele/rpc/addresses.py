"""Where a server listens and a channel dials, and which places may go without TLS.

An address is written `host:port`, `[v6]:port` or `unix:/path`. Plaintext is for places that other
machines cannot reach: Unix sockets, and addresses of the loopback network. A name counts as
loopback only if everything it resolves to does, which is why the rule takes resolved addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from stele.errors import InvalidArgument

UNIX_PREFIX: Final = "unix:"
UNIX_PATH_BYTES_MAX: Final = 107
"""`sun_path` has 108 bytes and ends with a zero."""

PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host, by name or number, and a port; port 0 lets the system choose one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket in the file system."""

    path: str

    def __str__(self) -> str:
        return f"{UNIX_PREFIX}{self.path}"


Address = TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """The address that `text` names."""
    if text.startswith(UNIX_PREFIX):
        return _unix_address(text.removeprefix(UNIX_PREFIX))
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not (port.isascii() and port.isdecimal()):
        raise InvalidArgument(f"address {text!r} is neither host:port nor unix:/path")
    if int(port) > PORT_MAX:
        raise InvalidArgument(f"port {port} of {text!r} is above {PORT_MAX}")
    return TcpAddress(host, int(port))


def _unix_address(path: str) -> UnixAddress:
    size = len(path.encode("utf-8", "surrogateescape"))
    if not path or "\0" in path:
        raise InvalidArgument(f"socket path {path!r} is not a file name")
    if size > UNIX_PATH_BYTES_MAX:
        raise InvalidArgument(
            f"socket path {path!r} takes {size} bytes, the system allows {UNIX_PATH_BYTES_MAX}"
        )
    return UnixAddress(path)


def is_loopback(host: str) -> bool:
    """Whether a *numeric* host is reachable from this machine only."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def check_plaintext(address: Address, resolved_hosts: Iterable[str], action: str) -> None:
    """Refuse to go without TLS to or from a place that other machines can reach."""
    if isinstance(address, UnixAddress):
        return
    for host in resolved_hosts:
        if not is_loopback(host):
            raise InvalidArgument(
                f"cannot {action} {address} without TLS: {host} is not a loopback address; "
                f"give a certificate, a key and an authority"
            )
