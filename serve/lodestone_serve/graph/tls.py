"""TLS of Serve's proxy: the certificate and key files of the settings, and a check that they can be used."""

from __future__ import annotations

import ssl
from pathlib import Path

from lodestone.config.serve import ServeSettings
from lodestone.errors import ConfigurationError

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_FILES = "serve.tls_certificate is a PEM file (the certificate first, then who signed it), serve.tls_key that of its key"


def tls_options(serve: ServeSettings) -> dict[str, str]:
    """Return the TLS part of Ray Serve's `http_options`: empty, or two absolute paths.

    Raises:
        ConfigurationError: one of the two files is named alone.
    """
    certificate, key = serve.tls_certificate, serve.tls_key
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        present, missing = ("key", "certificate") if certificate is None else ("certificate", "key")
        raise ConfigurationError(
            f"serve.tls_{present} is set, and serve.tls_{missing} is not",
            hint=f"set both; {_FILES}",
            setting=f"serve.tls_{missing}",
        )
    # A proxy is one of Ray's processes, with a different working directory.
    return {"ssl_certfile": str(certificate.absolute()), "ssl_keyfile": str(key.absolute())}


def checked_certificate(serve: ServeSettings) -> str:
    """Return the service's own certificate (PEM), by which its user's commands recognise it; "" without TLS.

    Raises:
        ConfigurationError: a file cannot be read, the two do not belong together, or the key needs a passphrase.
    """
    options = tls_options(serve)
    if not options:
        return ""
    certificate, key = options["ssl_certfile"], options["ssl_keyfile"]
    for setting, name in (("serve.tls_certificate", certificate), ("serve.tls_key", key)):
        try:
            Path(name).read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"cannot read {setting} {name!r}: {error.strerror}", hint=_FILES, setting=setting
            ) from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_passphrase)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(
            f"{certificate!r} and {key!r} are no certificate and its key: {error}",
            hint=f"{_FILES}, without a passphrase",
            setting="serve.tls_certificate",
        ) from error
    text = Path(certificate).read_text(encoding="utf-8", errors="replace")
    return f"{_BEGIN}{text.partition(_BEGIN)[2].partition(_END)[0]}{_END}\n"


def _no_passphrase() -> str:
    raise ValueError("the key wants a passphrase")
