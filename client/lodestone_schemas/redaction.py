"""Redaction of secrets (keys, tokens, passwords, signatures) in all that log lines, settings and error messages quote."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

HIDDEN: Final = "***"
_DEPTH: Final = 6
_LONGEST_QUOTE: Final = 200  # characters of a refused value in a message
_MOST_NAMES: Final = 8  # of a refused table
_TABLE_EXPECTED: Final = frozenset({"model_type", "model_attributes_type", "dict_type", "list_type", "json_invalid"})
_SECRET_NAME: Final = re.compile(
    r"(?i)authorization|cookie|x-api-key|x-lodestone-token|passw(or)?d|passphrase|secret|api_?key|access_?key|credential|"
    r"(^|[-_])(token|pwd|sig|signature)$"
)
# A setting with one of these names holds a secret too. Log lines use them for other things (`key` of a cache entry).
_SECRET_SETTING: Final = re.compile(r"(?i)(^|[-_])(key|auth|bearer|token)s?$|account_?key|private_?key")
_NAMES_A_PLACE: Final = re.compile(r"(?i)_(env|file)$")  # `key_env` and `key_file` say where a secret is
_SENSITIVE: Final = r"[^\s=&?#;'\"<>]*(?:key|token|secret|passw|pwd|sig|auth|credential|session|code)[^\s=&?#;'\"<>]*"
# Each replacement keeps the part that says which kind of secret was removed.
_PATTERNS: Final = (
    (re.compile(r"\b(lodestone_[0-9a-f]{16}(?:-\d+)?)_[A-Za-z0-9_-]{20,}"), r"\1_***"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"), HIDDEN),  # JSON web tokens
    (re.compile(r"(?i)\b(bearer|basic|digest)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 ***"),
    # user:password@ of any address. A password may hold a slash, a question mark and an at sign that nobody has quoted.
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@'\"<>]*:[^\s'\"<>]*@"), r"\1***@"),
    (re.compile(r"(?i)\b(https?://)[^\s/@'\"<>]+@"), r"\1***@"),  # a token in the user's place
    (re.compile(rf"(?i)([?&;]{_SENSITIVE}=)[^\s&;#'\"<>)}}\]]+"), r"\1***"),  # of a URL's query, however short
    (re.compile(r"\b((?:AKIA|ASIA)[A-Z0-9]{4})[A-Z0-9]{12}\b"), r"\1***"),  # AWS access keys
    # Keys of services that begin with the service's name: OpenAI, Hugging Face, Replicate, GitHub, GitLab, Slack, Google.
    (
        re.compile(r"\b(sk-|hf_|r8_|gh[opsu]_|github_pat_|glpat-|xox[abprs]-|AIza)(?=[\w-]*\d)[A-Za-z0-9_-]{16,}"),
        r"\1***",
    ),
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


def shown_setting(name: str, value: Any) -> Any:  # noqa: ANN401 - whatever a setting is
    """Return the value of a setting as it may be shown: a secret is replaced, and so are the secrets inside an address.

    Args:
        name: Dotted name of the setting.
        value: Its value; tables and lists are looked through, at any depth.
    """
    if _holds_secret(name, value):
        return HIDDEN
    if isinstance(value, Mapping):
        return {inner: shown_setting(f"{name}.{inner}" if name else str(inner), each) for inner, each in value.items()}
    if isinstance(value, list | tuple):
        shown = [shown_setting(name, each) for each in value]
        return shown if isinstance(value, list) else tuple(shown)
    return redacted(value) if isinstance(value, str) else value


def refused_value(error: Mapping[str, Any], *, within: str = "") -> str:
    """Return ` (got …)` for the message about a refused setting; empty where the value may be a secret.

    A value of an unknown name is never quoted, since the name may be that of a secret with a typing error. Nor is a text
    where a table is expected. A table is shown by the names in it.

    Args:
        error: One item of `ValidationError.errors()`.
        within: Dotted name of the section that was validated.
    """
    value, kind = error.get("input"), str(error.get("type", ""))
    place = ".".join(str(part) for part in (within, *error.get("loc", ())) if part != "")
    if kind in {"extra_forbidden", "missing"} or _holds_secret(place, value):
        return ""
    if isinstance(value, Mapping):
        names = sorted(str(name) for name in value)
        listed = ", ".join(repr(name[:40]) for name in names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
        return f" (got a table with {listed})" if names else " (got an empty table)"
    if isinstance(value, list | tuple | set | frozenset):
        return f" (got a list of {len(value)})"
    if isinstance(value, str | bytes) and kind in _TABLE_EXPECTED:
        return ""
    if value is None or isinstance(value, str | int | float):
        quoted = redacted(repr(value))
        return f" (got {quoted if len(quoted) <= _LONGEST_QUOTE else quoted[: _LONGEST_QUOTE - 1] + '…'})"
    return f" (got a {type(value).__name__})"


def _is_secret(name: str, value: object) -> bool:
    return isinstance(value, str | bytes) and bool(value) and _SECRET_NAME.search(name) is not None


def _holds_secret(name: str, value: object) -> bool:
    """Return whether the setting of this dotted name holds a secret as its value, and not the place of one."""
    *tables, last = name.split(".")
    if isinstance(value, bool) or not isinstance(value, str | bytes | int | float) or value in {"", b""}:
        return False
    if any(_NAMES_A_PLACE.search(part) for part in (*tables, last)):
        return False
    if any(_SECRET_NAME.search(part) for part in (*tables, last)):
        return True
    return isinstance(value, str | bytes) and _SECRET_SETTING.search(last) is not None
