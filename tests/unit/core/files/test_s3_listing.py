"""A part of a listing of S3 is never taken for the whole, and listing and reading reach the store in the same way."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector
from tests.support.certificates import write_certificates
from tests.support.scripted_server import Scripted, answer, head, scripted

from lodestone.errors import SourceError
from lodestone.files.filesystems import FileSystems
from lodestone.files.objects import ObjectArea
from lodestone.files.urls import Url
from lodestone.sources.objects import Listed, list_objects

CHANGED_NS = 1_704_164_645_000_000_000  # 2024-01-02T03:04:05Z


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing-secret")


class Encrypted(BaseHTTPRequestHandler):
    """A bucket with one object."""

    def do_GET(self) -> None:
        self.wfile.write(page("a.jpg"))

    def do_HEAD(self) -> None:
        self.wfile.write(head(Content_Length="3", ETag='"abc"'))

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server's address, and the file of the authority that vouches for it."""
    files = write_certificates(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Encrypted) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"https://localhost:{server.server_port}", files.authority
        server.shutdown()
        thread.join()


def page(*names: str, more: str = "<IsTruncated>false</IsTruncated>", changed: str = "2024-01-02T03:04:05.000Z") -> bytes:
    objects = "".join(
        f"<Contents><Key>{name}</Key><LastModified>{changed}</LastModified><ETag>&quot;abc&quot;</ETag><Size>3</Size></Contents>"
        for name in names
    )
    return xml(f"<ListBucketResult><Name>photos</Name>{more}{objects}</ListBucketResult>")


def goes_on(token: str) -> str:
    return f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"


def xml(content: str, status: int = 200) -> bytes:
    return answer(status, content.encode(), kind="application/xml")


def listed(server: Scripted, prefix: str = "") -> list[Listed]:
    return list(list_objects(url(server.url, prefix), FileSystems(), lambda _name: True))


def names(server: Scripted, prefix: str = "") -> list[str]:
    return [one.relative for one in listed(server, prefix)]


def url(address: str, prefix: str = "") -> Url:
    scheme, _, host = address.partition("://")
    return Url.typed(f"s3://photos/{prefix}?endpoint_override={host}&scheme={scheme}&region=us-east-1")


@pytest.mark.parametrize(
    "more",
    ["<IsTruncated>true</IsTruncated><NextMarker>b.jpg</NextMarker>", "<IsTruncated>true</IsTruncated>", goes_on("")],
)
def test_a_listing_that_goes_on_without_saying_where_is_never_taken_for_the_whole(more: str) -> None:
    with scripted(page("a.jpg", "b.jpg", more=more)) as server, pytest.raises(SourceError, match="does not say where"):
        listed(server)


def test_a_listing_that_goes_on_where_it_was_ends() -> None:
    same = page("a.jpg", more=goes_on("again"))
    with scripted(same, same, page("b.jpg")) as server, pytest.raises(SourceError, match="does not say where"):
        listed(server)


def test_empty_pages_in_a_listing_are_neither_its_end_nor_a_place_that_is_not_there() -> None:
    empty = [page(more=goes_on(token)) for token in ("first", "second")]
    with scripted(*empty, page("in/a.jpg", more=goes_on("third")), page()) as server:
        assert names(server, "in") == ["a.jpg"]
    with scripted(*empty, page()) as server, pytest.raises(SourceError, match="there is nothing at"):
        listed(server, "in")


def test_a_page_that_says_only_where_it_goes_on_is_followed() -> None:
    with scripted(page("a.jpg", more="<NextContinuationToken>x</NextContinuationToken>"), page("b.jpg")) as server:
        assert names(server) == ["a.jpg", "b.jpg"]


@pytest.mark.parametrize("told", ["2024-01-02T03:04:05Z", "2024-01-02T03:04:05", "Tue, 02 Jan 2024 03:04:05 GMT"])
def test_times_are_read_as_stores_write_them(told: str) -> None:
    with scripted(page("a.jpg", changed=told)) as server:
        assert [one.mtime_ns for one in listed(server)] == [CHANGED_NS]


@pytest.mark.parametrize(
    "content",
    [
        page("a.jpg", changed="some day"),
        xml("<html><body>log in first</body></html>"),
        xml(""),
        page("a.jpg").replace(b"<Size>3</Size>", b"<Size>x</Size>"),
        page("a.jpg").replace(b"<Size>3</Size>", b"<Mass>3</Mass>"),
    ],
)
def test_answers_that_are_no_listing_are_no_empty_bucket(content: bytes) -> None:
    with scripted(content) as server, pytest.raises(SourceError, match="the answer is no listing of S3"):
        listed(server)


def test_an_empty_bucket_is_empty() -> None:
    with scripted(xml("<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>")) as server:
        assert listed(server) == []


def test_listing_goes_past_proxies_as_reading_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with scripted(b"") as proxy, scripted(page("a.jpg")) as server:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert names(server) == ["a.jpg"]
        system, path = FileSystems().at(url(server.url))
        assert [found.path for found in system.get_file_info(FileSelector(path))] == ["photos/a.jpg"]
        assert proxy.asked == []


def test_without_credentials_requests_are_unsigned_and_a_refusal_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(page("a.jpg")) as server:
        assert names(server) == ["a.jpg"]
        assert "authorization" in server.asked[0].headers
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with scripted(page("a.jpg")) as server:
        assert names(server) == ["a.jpg"]
        assert "authorization" not in server.asked[0].headers
    denied = xml("<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>", 403)
    with scripted(denied) as server, pytest.raises(SourceError, match="unable to locate credentials"):
        listed(server)


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_an_authority_of_ones_own_is_trusted_by_listing(
    variable: str, monkeypatch: pytest.MonkeyPatch, tls: tuple[str, Path]
) -> None:
    address, authority = tls
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    monkeypatch.setenv("SSL_CERT_DIR", "/nowhere")
    with pytest.raises(SourceError, match="CERTIFICATE_VERIFY_FAILED"):
        list(list_objects(url(address), FileSystems(), lambda _name: True))
    if variable == "SSL_CERT_DIR":  # as Debian has it: beside a file of all there are links that botocore does not follow
        authority.rename(authority.with_name("ca-certificates.crt"))
    monkeypatch.setenv(variable, str(authority.parent if variable == "SSL_CERT_DIR" else authority))
    assert [one.relative for one in list_objects(url(address), FileSystems(), lambda _name: True)] == ["a.jpg"]


def test_an_authority_that_is_named_for_aws_is_trusted_by_reading_and_by_files(
    monkeypatch: pytest.MonkeyPatch, tls: tuple[str, Path]
) -> None:  # (SSL_CERT_FILE is pyarrow's own matter, once for a process)
    address, authority = tls
    where = url(address)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    assert FileSystems().look_at(str(where.join("a.jpg"))).size == 3
    assert ObjectArea(str(where)).size("a.jpg") == 3
