"""URLs of object stores, without secrets and with literal keys.

URLs from users and tables are taken literally, as the stores' own tools do: `s3://bucket/100% wool.jpg?region=eu-west-1` names
the key `100% wool.jpg`; everything after the first "?" is options of the file system. Inside roots and locators `%`, `?` and
`#` of the key are percent-encoded, so that the text has one meaning. Web addresses (http, https) are not changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl

from lodestone.errors import InvalidRequestError

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_WEB: Final = frozenset({"http", "https"})
# In the name of an option: access_key, aws_secret_access_key, session_token, sas_token, account_key, connection_string, sig, …
_SECRET: Final = re.compile(r"key|secret|token|passw|credential|signature|^sig$|connection_string", re.IGNORECASE)
_WITH_USER: Final = re.compile(r"[^/@?#]*:[^@]*@")  # a secret key may hold slashes
_PORT: Final = re.compile(r"[^/@:?#]+:\d+/")  # host:9000/who@where.jpg
_ENCODED: Final = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})


@dataclass(frozen=True, slots=True)
class Url:
    """The place of a bucket, a prefix or an object.

    Attributes:
        scheme: Protocol in lower case: `s3`, `gs`, …
        bucket: Bucket or host.
        key: Literal key inside the bucket; a prefix has no slash at either end.
        query: Options of the file system: `endpoint_override=…&scheme=http`.
    """

    scheme: str
    bucket: str
    key: str = ""
    query: str = ""

    @staticmethod
    def typed(text: str) -> Url:
        """Parse a URL that a person or a table wrote.

        Raises:
            InvalidRequestError: the text is no URL, names no bucket, or holds credentials.
        """
        return _checked(_parts(text), text)

    @staticmethod
    def stored(text: str) -> Url:
        """Parse a URL that `str` of a `Url` wrote."""
        url = _parts(text)
        return url if url.is_web else replace(url, key=_decoded(url.key))

    def __str__(self) -> str:
        key = self.key if self.is_web else self.key.translate(_ENCODED)
        return f"{self.scheme}://{self.bucket}{'/' if key else ''}{key}{'?' if self.query else ''}{self.query}"

    @property
    def is_web(self) -> bool:
        """Return whether this is a web address (http or https)."""
        return self.scheme in _WEB

    @property
    def shown(self) -> str:
        """Return the URL for messages, without its options."""
        return str(replace(self, query=""))

    @property
    def name(self) -> str:
        """Return the last part of the key, or the bucket when the key is empty."""
        return self.key.rsplit("/", 1)[-1] or self.bucket

    @property
    def parent(self) -> Url:
        """Return the URL of the enclosing prefix."""
        return replace(self, key=self.key.rpartition("/")[0])

    def join(self, relative: str) -> Url:
        """Return the URL of a relative key below this one."""
        return replace(self, key=f"{self.key}/{relative}" if self.key and relative else self.key or relative)

    def below(self, other: Url) -> str | None:
        """Return the key relative to `other` ("" when both are the same place); None when it is not below `other`."""
        if (self.scheme, self.bucket, self.query) != (other.scheme, other.bucket, other.query):
            return None
        if self.key == other.key or not other.key:
            return self.key if not other.key else ""
        return self.key[len(other.key) + 1 :] if self.key.startswith(other.key + "/") else None


def is_url(text: str) -> bool:
    """Return whether the text is written as a URL of any scheme except `file`."""
    match = _URL.match(text)
    return match is not None and match[1].lower() != "file"


def _parts(text: str) -> Url:
    match = _URL.match(text)
    if match is None:
        raise InvalidRequestError(f"{text!r} is no URL", hint="for example s3://bucket/prefix")
    scheme = match[1].lower()
    rest, query = (match[2], "") if scheme in _WEB else _halves(match[2])
    bucket, _, key = rest.partition("/")
    return Url(scheme, bucket, key if scheme in _WEB else key.strip("/"), query)


def _halves(text: str) -> tuple[str, str]:
    before, _, after = text.partition("?")
    return before, after


def bare_of(text: str) -> str | None:
    """Return the URL without its credentials, for messages; None when it holds none or the text is no URL."""
    match = _URL.match(text)
    if match is None:
        return None
    scheme, place = match[1].lower(), match[2]
    is_web = scheme in _WEB
    bucket = place.partition("/")[0].partition("?")[0]
    options = [] if is_web else parse_qsl(place.partition("?")[2], keep_blank_values=True)
    if (
        (_WITH_USER.match(place) and not (is_web and _PORT.match(place)))
        or ("@" in bucket and scheme not in {"abfs", "abfss"})
        or any(_SECRET.search(name) or _WITH_USER.search(value) for name, value in options)
    ):
        return f"{scheme}://{place.partition('?')[0].rpartition('@')[2]}"
    return None


def _checked(url: Url, text: str) -> Url:
    if (bare := bare_of(text)) is not None:
        raise InvalidRequestError(
            f"the URL of {bare!r} holds credentials",
            hint="give them by the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, …)",
        )
    if not url.bucket and url.scheme != "memory":
        raise InvalidRequestError(f"{text!r} names no bucket", hint="for example s3://bucket/prefix")
    return url


def _decoded(key: str) -> str:
    return key.replace("%3F", "?").replace("%23", "#").replace("%25", "%")
