"""Certificates: who we are, whom we trust, and whom no longer.

TLS 1.3 with certificates on both sides, always: a server asks for one and a client shows one.
Names of hosts prove little in a cluster whose servers move, so the identity is the URI that
`identity.py` reads; a host name is checked as well if one is given. Session tickets are off: a
resumed session would not show its certificate, and a revoked one must be seen.

Rotation: `reload` looks whether a file has changed and builds new contexts. Connections that stand
go on with the old ones, the next ones use the new. Files that do not fit together (a key written
before its certificate) leave what was loaded before in force.

Revocation is a text file with one serial number in hexadecimal on each line, `#` for comments. It
is checked at each handshake, and by the server for the connections that stand.
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stele.errors import InvalidArgument, Unauthenticated
from stele.rpc.identity import PeerIdentity, identity_from_uris

KEY_MODE_FORBIDDEN: Final = stat.S_IRWXG | stat.S_IRWXO
"""A key that its group or the world can touch is not a secret."""

REVOKED_BYTES_MAX: Final = 16 << 20

HANDSHAKE_TIMEOUT_S: Final = 5.0

_Fingerprint = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where certificate chain, private key and trusted authorities are, all in PEM."""

    certificate: Path
    key: Path
    authority: Path
    revoked: Path | None = None

    def all(self) -> tuple[Path, ...]:
        """The files that there must be."""
        required = (self.certificate, self.key, self.authority)
        return required if self.revoked is None else (*required, self.revoked)


class Credentials:
    """What this process shows to others and demands of them. Belongs to one loop."""

    def __init__(
        self,
        files: TlsFiles,
        *,
        version_floor: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        server_hostname: str | None = None,
    ):
        if version_floor < ssl.TLSVersion.TLSv1_2:
            raise InvalidArgument(f"TLS floor {version_floor.name} is below TLSv1_2")
        self.server_hostname = server_hostname
        self._files = files
        self._version_floor = version_floor
        self._fingerprint: _Fingerprint = ()
        self.reload()

    def reload(self) -> bool:
        """Read the files again if one has changed. Raises, and changes nothing, if one is bad."""
        fingerprint = tuple(_fingerprint(path) for path in self._files.all())
        if fingerprint == self._fingerprint:
            return False
        check_key_file(self._files.key)
        server_context = self._context(ssl.PROTOCOL_TLS_SERVER)
        client_context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        revoked = _read_revoked(self._files.revoked)
        self.server_context = server_context
        self.client_context = client_context
        self._revoked = revoked
        self._fingerprint = fingerprint
        return True

    def identify(self, certificate: Mapping[str, Any] | None) -> PeerIdentity:
        """The holder of a verified certificate, as `SSLSocket.getpeercert` describes it."""
        if not certificate:
            raise Unauthenticated("the peer showed no certificate")
        names = certificate.get("subjectAltName", ())
        uris = [value for kind, value in names if kind == "URI"]
        identity = identity_from_uris(uris, str(certificate.get("serialNumber", "")))
        if self.is_revoked(identity):
            raise Unauthenticated(f"certificate {identity.serial} of {identity} is revoked")
        return identity

    def is_revoked(self, identity: PeerIdentity) -> bool:
        """Whether the certificate behind an identity has been withdrawn."""
        return bool(identity.serial) and int(identity.serial, 16) in self._revoked

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = self._version_floor
        context.check_hostname = (
            protocol == ssl.PROTOCOL_TLS_CLIENT and self.server_hostname is not None
        )
        context.verify_mode = ssl.CERT_REQUIRED
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0
        try:
            context.load_cert_chain(self._files.certificate, self._files.key)
            context.load_verify_locations(cafile=self._files.authority)
        except (OSError, ValueError) as error:
            raise InvalidArgument(
                f"certificate {self._files.certificate}, key {self._files.key} and authority "
                f"{self._files.authority} do not load: {error}"
            ) from error
        return context


def holder_of(certificate: Path) -> PeerIdentity:
    """Whom a certificate file speaks of: the first in it, which is ours."""
    from cryptography import x509  # large, and few need it

    try:
        parsed = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        uris: list[str] = []
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"certificate {certificate}: {error}") from error
    else:
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    return identity_from_uris(uris, f"{parsed.serial_number:X}")


def check_key_file(path: Path) -> None:
    """Refuse a private key that others can read or replace."""
    try:
        status = path.stat()
    except OSError as error:
        raise InvalidArgument(f"key file {path}: {error.strerror}") from error
    mode = stat.S_IMODE(status.st_mode)
    if mode & KEY_MODE_FORBIDDEN:
        raise InvalidArgument(f"key file {path} has mode {mode:04o}; it must be 0600 or less")
    if status.st_uid != os.geteuid():
        raise InvalidArgument(
            f"key file {path} belongs to user {status.st_uid}, not to {os.geteuid()}"
        )


def _fingerprint(path: Path) -> tuple[str, int, int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise InvalidArgument(f"TLS file {path}: {error.strerror}") from error
    return str(path), status.st_mtime_ns, status.st_size, status.st_ino


def _read_revoked(path: Path | None) -> frozenset[int]:
    if path is None:
        return frozenset()
    try:
        if path.stat().st_size > REVOKED_BYTES_MAX:
            raise InvalidArgument(f"{path} is larger than {REVOKED_BYTES_MAX} bytes")
        lines = path.read_text(encoding="ascii").splitlines()
        words = (line.partition("#")[0].strip() for line in lines)
        return frozenset(int(word, 16) for word in words if word)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"revoked serial numbers in {path}: {error}") from error
