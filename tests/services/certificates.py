"""A certificate authority of the test's own, and certificates that it signs."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """An authority whose files lie in `folder`. ca: its own certificate, PEM."""

    def __init__(self, folder: Path, name: str) -> None:
        self.ca = folder / "ca.pem"
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        own = _builder(self._name, self._name, self._key, days=30)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.ca.write_bytes(own.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def certificate(self, *hosts: str, days: int = 20) -> Path:
        """Return a file with a key, and a certificate for `hosts` that is valid for `days` more days."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            x509.IPAddress(ip_address(host)) if host[0].isdecimal() else x509.DNSName(host) for host in hosts
        ]  # fmt: skip
        made = _builder(_name(hosts[0]), self._name, key, days).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        pem = made.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
        path = self._folder / f"{'-'.join(hosts)}{days}.pem"
        path.write_bytes(pem + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number(), now - timedelta(days=60),
        now + timedelta(days=days),
    )  # fmt: skip
