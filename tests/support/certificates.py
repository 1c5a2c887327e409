"""Certificates of nobody but the tests: an authority, and what it signs. Made anew each time, good for an hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificates:
    """PEM files: of the authority, of what it signed, and of that one's key."""

    authority: Path
    certificate: Path
    key: Path


def write_certificates(folder: Path, *names: str) -> Certificates:
    """Make an authority that signs a certificate for these DNS names."""
    folder.mkdir(parents=True, exist_ok=True)
    own, others = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("an authority of tests")
    root = _made(issuer, issuer, own.public_key()).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    signed = _made(_name(names[0]), issuer, others.public_key())
    signed = signed.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
    made = Certificates(folder / "authority.pem", folder / "certificate.pem", folder / "key.pem")
    authority = root.sign(own, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    made.authority.write_bytes(authority)
    made.certificate.write_bytes(signed.sign(own, hashes.SHA256()).public_bytes(serialization.Encoding.PEM) + authority)
    made.key.write_bytes(
        others.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


def _made(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
