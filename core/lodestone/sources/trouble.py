"""Classification of an object store's refusals: one object missing or denied, credentials expired, or no answer.

It goes by the words of the message: pyarrow, fsspec and the services have no error types in common.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from lodestone.errors import ImageError, SourceError

_MISSING: Final = ("no_such_key", "nosuchkey", "path does not exist", "not found", "resource_not_found", "(404)")
_NO_BUCKET: Final = ("no_such_bucket", "nosuchbucket")
_EXPIRED: Final = (
    *("expired", "invalid_access_key_id", "invalidaccesskeyid", "invalidclienttokenid", "invalid_client_token_id"),
    *("signature_does_not_match", "signaturedoesnotmatch", "requesttimetooskewed", "request_time_too_skewed"),
    *("invalid_signature", "unrecognized_client", "unrecognizedclient", "invalidtoken", "invalid_grant", "unauthorized"),
    *("missing_authentication_token", "nocredentials", "unable to locate credentials", "could not find credentials"),
    *("config profile", "no valid credential", "unauthenticated", "http status 401", "http status 400"),
)
_DENIED: Final = ("access_denied", "accessdenied", "forbidden", "permission", "http status 403", "(403)", "403,")


class Trouble(StrEnum):
    """Kinds of refusals by an object store."""

    MISSING = "missing"
    DENIED = "denied"
    EXPIRED = "expired"
    UNREACHABLE = "unreachable"


def trouble_of(error: BaseException) -> Trouble:
    """Return the kind of a file system's error."""
    text = str(error).lower()
    if any(word in text for word in _NO_BUCKET):
        return Trouble.UNREACHABLE
    if any(word in text for word in _EXPIRED):
        return Trouble.EXPIRED
    if isinstance(error, PermissionError) or any(word in text for word in _DENIED):
        return Trouble.DENIED
    if isinstance(error, FileNotFoundError) or any(word in text for word in _MISSING):
        return Trouble.MISSING
    return Trouble.UNREACHABLE


def source_error(error: BaseException, where: str, *, doing: str = "listed") -> SourceError:
    """Return the error that ends the work on a source, made from its file system's error.

    Args:
        error: The file system's error.
        where: The place, without secrets.
        doing: `listed` or `read`.
    """
    trouble = trouble_of(error)
    why, hint = {
        Trouble.MISSING: ("there is no such place", "check the URL; is the bucket right?"),
        Trouble.DENIED: ("access is denied", "grant these credentials s3:ListBucket and s3:GetObject (or the store's like)"),
        Trouble.EXPIRED: (
            "the credentials are expired or not valid",
            "renew them and run the same command again; what is finished is kept",
        ),
        Trouble.UNREACHABLE: (
            "the store does not answer as it should",
            "check the URL and the network, and run the same command again",
        ),
    }[trouble]
    if any(word in str(error).lower() for word in _NO_BUCKET):
        why, hint = "the bucket does not exist", "check the URL; was the bucket deleted? What was indexed from it is kept"
    return SourceError(f"{where} cannot be {doing}: {why} ({_first_line(error)})", hint=hint, reason=trouble.value)


def read_failure(error: BaseException) -> ImageError:
    """Return the error of one picture that is missing or denied."""
    if trouble_of(error) is Trouble.MISSING:
        return ImageError(
            "it is not there any more", hint="run the index again: the source changed meanwhile", reason="missing"
        )
    return ImageError(
        f"reading it is denied: {_first_line(error)}",
        hint="grant these credentials the right to read it, and index with --retry-failed",
        reason=Trouble.DENIED.value,
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
