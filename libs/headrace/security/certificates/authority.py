"""Authority of one platform: signs the certificates of its roles (RFC 5280), on the curve P-256."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headrace.errors import ConfigError
from headrace.security.certificates.role import CALLERS, SERVERS, name_of

AUTHORITY_DAYS = 3650
CLOCK_SKEW = datetime.timedelta(minutes=5)
"""Time before now from which certificates are valid: clocks of machines differ."""


@dataclass(frozen=True, slots=True)
class SignedPair:
    """Certificate and its private key, in PEM."""

    certificate: bytes
    private_key: bytes

    def __repr__(self) -> str:
        return "SignedPair(…)"


class Authority:
    """Signs with one key. Its holder can assume any role: it belongs where `headrace certs` runs, and nowhere else."""

    def __init__(self, pair: SignedPair) -> None:
        """Raises ConfigError for a pair that cannot be read."""
        try:
            self._certificate = x509.load_pem_x509_certificate(pair.certificate)
            key = serialization.load_pem_private_key(pair.private_key, None)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"the authority's certificate or key is not PEM: {error}", param="folder") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError("the authority's key is not on an elliptic curve: make another authority", param="folder")
        self._key = key

    def issue(self, role: str, hosts: Sequence[str], days: int) -> SignedPair:
        """Signs a certificate of the role with a new key. It is valid for `days`, and never longer than the
        authority. `hosts`: further names and IP addresses for it."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = self._key.public_key()
        names: list[x509.GeneralName] = [x509.DNSName(name_of(role)), *map(_general_name, hosts)]
        latest = self._certificate.not_valid_after_utc
        builder = (
            _builder(name_of(role), self._certificate.subject, key, min(_now() + datetime.timedelta(days=days), latest))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(_purposes(role)), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        )
        return _signed(builder, self._key, key)


def new_authority() -> SignedPair:
    """Makes the certificate and key of a new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = "Headrace authority"
    until = _now() + datetime.timedelta(days=AUTHORITY_DAYS)
    builder = (
        _builder(name, _subject(name), key, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return _signed(builder, key, key)


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder, signer: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePrivateKey
) -> SignedPair:
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    certificate = builder.sign(signer, hashes.SHA256())
    return SignedPair(certificate.public_bytes(pem), key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    """Returns a host as a certificate has it. Raises ConfigError for anything but a name or an IP address."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise ConfigError(f"{host!r} is neither an ASCII host name nor an IP address", param="host") from None


def _purposes(role: str) -> list[x509.ObjectIdentifier]:
    server = [ExtendedKeyUsageOID.SERVER_AUTH] if role in SERVERS else []
    return [*server, *([ExtendedKeyUsageOID.CLIENT_AUTH] if role in CALLERS else [])]


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
