"""A certificate that cannot be used is refused before anything starts, and one is believed only by those who should."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.support.certificates import Certificates, write_certificates

from lodestone.config.home import Home
from lodestone.config.serve import ServeSettings
from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError, ServiceUnavailableError
from lodestone.home.running_service.address import ServiceAddress, find_service, instance_of, read_address
from lodestone.home.running_service.client import ServiceClient
from lodestone_client import Lodestone
from lodestone_schemas.service import Alive
from lodestone_serve.graph.config import as_yaml, read_config, serve_config
from lodestone_serve.graph.tls import checked_certificate, tls_options

TOKEN = "a-token-of-tests"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return write_certificates(tmp_path_factory.mktemp("tls"), "localhost")


class _Health(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        body = Alive(status="ok", version="test", instance=instance_of(TOKEN)).model_dump_json().encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port(made: Certificates) -> Iterator[int]:
    """Of a server on 127.0.0.1, for which its certificate is not."""
    server = HTTPServer(("127.0.0.1", 0), _Health)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # who distrusts it hangs up
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join(10)


def settings(certificate: Path | None, key: Path | None) -> ServeSettings:
    return ServeSettings(tls_certificate=certificate, tls_key=key)


def test_the_proxys_options_are_both_files_or_none(made: Certificates) -> None:
    assert tls_options(ServeSettings()) == {}
    assert checked_certificate(ServeSettings()) == ""
    options = tls_options(settings(made.certificate, made.key))
    assert options == {"ssl_certfile": str(made.certificate), "ssl_keyfile": str(made.key)}
    for alone in (settings(made.certificate, None), settings(None, made.key)):
        with pytest.raises(ConfigurationError, match=r"is set, and serve\.tls_\w+ is not"):
            tls_options(alone)


def test_what_is_published_is_the_services_own_certificate_alone(made: Certificates) -> None:
    own = checked_certificate(settings(made.certificate, made.key))
    assert made.certificate.read_text().startswith(own)
    assert own.count("BEGIN CERTIFICATE") == 1


def test_files_that_cannot_be_used_are_named(made: Certificates, tmp_path: Path) -> None:
    other = write_certificates(tmp_path / "other", "localhost")
    with pytest.raises(ConfigurationError, match=r"cannot read serve\.tls_key .*none\.pem"):
        checked_certificate(settings(made.certificate, tmp_path / "none.pem"))
    with pytest.raises(ConfigurationError, match="no certificate and its key"):
        checked_certificate(settings(made.certificate, other.key))
    with pytest.raises(ConfigurationError, match="no certificate and its key"):
        checked_certificate(settings(made.key, made.key))


def test_a_cluster_is_told_and_asked_back(made: Certificates, tmp_path: Path) -> None:
    serve = {"host": "127.0.0.1", "tls_certificate": str(made.certificate), "tls_key": str(made.key)}
    written = serve_config(Settings(home=tmp_path, serve=serve))
    assert written["http_options"]["ssl_certfile"] == str(made.certificate)
    found = read_config(as_yaml(written)).flags["serve"]
    assert (found["tls_certificate"], found["tls_key"]) == (str(made.certificate), str(made.key))


def test_commands_of_this_machine_believe_the_very_certificate_that_the_service_published(
    made: Certificates, port: int, tmp_path: Path
) -> None:
    home = Home(tmp_path)
    own = checked_certificate(settings(made.certificate, made.key))
    other = checked_certificate(_pair(write_certificates(tmp_path / "other", "localhost")))
    for certificate, found in ((own, True), (other, False), ("", False)):
        address = ServiceAddress(f"https://127.0.0.1:{port}", os.getpid(), TOKEN, "t", datetime.now(UTC), certificate)
        address.write(home)
        assert read_address(home) == address
        assert (find_service(home) == address) is found
        if not found:
            with ServiceClient(address) as client, pytest.raises(ServiceUnavailableError, match="not trusted"):
                client.corpora()


def _pair(made: Certificates) -> ServeSettings:
    return settings(made.certificate, made.key)


def test_others_need_the_authority_and_the_name(made: Certificates, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(host: str) -> str:
        before = _Health.asked
        with Lodestone(f"https://{host}:{port}") as client, pytest.raises(ServiceUnavailableError) as caught:
            client.corpora()
        assert _Health.asked == before
        return f"{caught.value.message}; {caught.value.hint}"

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert "not trusted: self-signed certificate in certificate chain; name the PEM file" in refused("localhost")
    monkeypatch.setenv("LODESTONE_CA_FILE", str(made.authority))
    assert "'127.0.0.1'; ask by a name that the certificate is for" in refused("127.0.0.1")
    with Lodestone(f"https://localhost:{port}") as client, pytest.raises(ServiceUnavailableError, match="which is not what"):
        client.corpora()  # it is believed, and answers with something else


@pytest.mark.parametrize("variable", ["LODESTONE_CA_FILE", "SSL_CERT_FILE"])
def test_a_file_without_certificates_is_named(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.pem").write_text("nothing", encoding="utf-8")
    for name in ("empty.pem", "none.pem"):
        monkeypatch.setenv(variable, str(tmp_path / name))
        with pytest.raises(ConfigurationError, match=f"{variable} names .*{name}"):
            Lodestone("https://localhost")
