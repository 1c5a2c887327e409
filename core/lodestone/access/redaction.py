"""Redaction of secrets (keys, tokens, passwords, signatures) in everything that log lines and error messages quote."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

HIDDEN: Final = "***"
_DEPTH: Final = 6
_SECRET_NAME: Final = re.compile(
    r"(?i)authorization|cookie|x-api-key|x-lodestone-token|passw(or)?d|passphrase|secret|api_?key|access_?key|credential|"
    r"(^|[-_])(token|pwd|sig|signature)$"
)
# Each replacement keeps the part that says which kind of secret was removed.
_PATTERNS: Final = (
    (re.compile(r"\b(lodestone_[0-9a-f]{16}(?:-\d+)?)_[A-Za-z0-9_-]{20,}"), r"\1_***"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"), HIDDEN),  # JSON web tokens
    (re.compile(r"(?i)\b(bearer|basic|digest)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@'\"<>]*:[^\s@'\"<>]*@"), r"\1***@"),  # user:password@ of any address
    (re.compile(r"\b((?:AKIA|ASIA)[A-Z0-9]{4})[A-Z0-9]{12}\b"), r"\1***"),  # AWS access keys
    (
        re.compile(
            r"(?i)\b(x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|awsaccesskeyid|"
            r"aws_secret_access_key|aws_session_token|secret_?(?:access_?)?key|account_?key|sharedaccesskey|api_?key|access_token|"
            r"id_token|refresh_token|client_secret|password|passwd|pwd|sig|signature|token|x-api-key|x-lodestone-token)"
            r"(['\"]?\s*[=:]\s*['\"]?)[^\s&;,'\"<>)}\]]{3,}"
        ),
        r"\1\2***",
    ),
)


def redacted(text: str) -> str:
    """Return the text with everything that looks like a secret replaced."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def hide_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Remove all secrets from an event, at any depth; this is a structlog processor."""
    for name in list(event):
        event[name] = HIDDEN if _is_secret(name, event[name]) else without_secrets(event[name])
    return event


def without_secrets(value: Any, depth: int = _DEPTH) -> Any:  # noqa: ANN401 - whatever somebody logs or reports
    """Return a copy of a JSON-like value with its texts redacted; values under the names of secrets are replaced as a whole."""
    if value is None or isinstance(value, int | float | bool):
        return value
    if depth and isinstance(value, Mapping):
        return {
            name: HIDDEN if _is_secret(str(name), inner) else without_secrets(inner, depth - 1) for name, inner in value.items()
        }
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [without_secrets(inner, depth - 1) for inner in value]
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return redacted(text)


def _is_secret(name: str, value: object) -> bool:
    return isinstance(value, str | bytes) and bool(value) and _SECRET_NAME.search(name) is not None
