"""Certificates of servers under test."""

from __future__ import annotations

import datetime as dt
import shutil
import uuid
from contextlib import closing
from ipaddress import IPv4Address

import psycopg2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from webapp.embedded.postgres_source import EmbeddedPostgresSource


def certificate() -> tuple[str, str]:
    """PEM texts of a new certificate for 127.0.0.1 and localhost that vouches for itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"tests {uuid.uuid4()}")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(1))
        .not_valid_after(now + dt.timedelta(1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("localhost")]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return made.public_bytes(pem).decode(), text.decode()


def offer_tls(server: EmbeddedPostgresSource) -> str:
    """A server that runs offers TLS from now on; its certificate."""
    own, key = certificate()
    data = server.folder / "data"
    for name, text in (("server.crt", own), ("server.key", key)):
        (data / name).write_text(text)
        (data / name).chmod(0o600)
        shutil.chown(data / name, data.stat().st_uid)
    with closing(psycopg2.connect(**server.address)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("ALTER SYSTEM SET ssl = on")
            cursor.execute("SELECT pg_reload_conf()")
    return own
