"""Certificates made on the fly, good ones and bad ones."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from stele.env.real import SystemClock
from stele.rpc.identity import Role, identity_uri
from stele.rpc.tls import Credentials, TlsFiles

NOW = datetime.datetime.fromtimestamp(SystemClock().now_us() / 1e6, datetime.UTC)
DAY = datetime.timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


@dataclass
class Authority:
    """A certificate authority of a test, in a directory of its own."""

    folder: Path
    name: str = "authority"

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._serial = 0
        self.path = self.folder / f"{self.name}.pem"
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(self.name))
            .issuer_name(_name(self.name))
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - DAY)
            .not_valid_after(NOW + 10 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *roles: Role,
        cluster: str = "c1",
        begin: datetime.datetime = NOW - DAY,
        end: datetime.datetime = NOW + DAY,
        uris: list[str] | None = None,
        trusted: Path | None = None,
        revoked: Path | None = None,
    ) -> TlsFiles:
        """Files for a holder in these roles; `trusted` is whom the holder trusts."""
        key = ec.generate_private_key(ec.SECP256R1())
        self._serial += 1
        names: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(uri)
            for uri in (
                [identity_uri(cluster, role, name) for role in roles] if uris is None else uris
            )
        ]
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(self.name))
            .public_key(key.public_key())
            .serial_number(self._serial)
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        files = TlsFiles(
            self.folder / f"{self.name}-{name}.pem",
            self.folder / f"{self.name}-{name}.key",
            trusted or self.path,
            revoked,
        )
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files.key.touch(mode=0o600)
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def credentials(self, name: str, *roles: Role) -> Credentials:
        """Ready-made credentials of a good holder."""
        return Credentials(self.issue(name, *roles))
