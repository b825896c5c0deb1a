"""Where a node listens, and where the others find it.

What a member announces goes into the log of its group, and everybody calls it there for years. So
it has to be an address that can be called: with a port, and not that of all interfaces at once,
which is a place to listen and nowhere to go.
"""

from __future__ import annotations

import ipaddress

from stele.errors import InvalidArgument
from stele.rpc.addresses import TcpAddress, parse_address
from stele.rpc.listening import bind_tcp


def check_callable(text: str, option: str) -> None:
    """Refuse an address that nobody could call."""
    try:
        address = parse_address(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{option}: {error}") from error
    if isinstance(address, TcpAddress):
        if not address.port:
            raise InvalidArgument(f"{option} {text} names no port that others could call")
        if _is_everywhere(address.host):
            raise InvalidArgument(f"{option} {text} is every interface, and no address to call")


def place_to_listen(listen: str, advertise: str, *, has_tls: bool) -> str:
    """The address to listen at, with a port that is free now where the system is to choose it. One
    that cannot be, or that is not enough to tell others, is refused before anything is founded."""
    address = parse_address(listen)
    if not isinstance(address, TcpAddress):
        return listen
    if has_tls and not advertise and _is_everywhere(address.host):
        raise InvalidArgument(
            f"--listen {listen} is every interface, and no address to call: say with --advertise "
            "HOST:PORT where the others find this node"
        )
    bound, chosen = bind_tcp(address, has_tls)
    bound.close()
    return listen if address.port else str(chosen)


def _is_everywhere(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_unspecified
    except ValueError:
        return False  # a name, which the others resolve for themselves
