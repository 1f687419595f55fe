"""What a broker and its clients need for TLS and SASL: an authority made here, its certificate for the broker,
users.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from webapp.embedded.ports import LOOPBACK

PROTOCOLS = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")
USER, PASSWORD = "tidemark", "correct-horse-4711"
LOGIN = "org.apache.kafka.common.security"


class Authority:
    """A certificate authority, which only those trust who were given its certificate."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0))

    @property
    def pem(self) -> str:
        """Its own certificate."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issued(self, *names: x509.GeneralName) -> str:
        """A key and a certificate of a server with these names, in one text."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
        certificate = self._signed(subject, key, x509.SubjectAlternativeName(names))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return private.decode() + certificate.public_bytes(Encoding.PEM).decode() + self.pem

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=2))
        return builder.add_extension(extension, critical=False).sign(self._key, hashes.SHA256())


def broker_options(folder: Path, authority: Authority) -> dict[str, str]:
    """Settings of a broker that speaks PROTOCOLS, with USER by SCRAM-SHA-512 (made when it is formatted) and PLAIN."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = folder / "broker.pem"
    keys.touch(mode=0o600)
    keys.write_text(authority.issued(x509.IPAddress(ip_address(LOOPBACK))))
    plain = f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    options = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        options[f"listener.name.{listener}.plain.sasl.jaas.config"] = plain
        scram = f"{LOGIN}.scram.ScramLoginModule required;"
        options[f"listener.name.{listener}.scram-sha-512.sasl.jaas.config"] = scram
    return options
