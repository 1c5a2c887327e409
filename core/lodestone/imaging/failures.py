"""Stable reasons why a picture cannot be used, and the errors that carry them."""

from __future__ import annotations

import errno
from enum import StrEnum

from lodestone.errors import ImageError, ImageTooLargeError


class FailureReason(StrEnum):
    """Names the reasons in `ImageError.details["reason"]` and the failures table; values are added, never renamed."""

    EMPTY_FILE = "empty_file"  # 0 bytes
    NOT_AN_IMAGE = "not_an_image"  # the content is no known picture format, whatever the file's name
    UNSUPPORTED = "unsupported"  # a picture, in a format or variant that we do not decode
    TRUNCATED = "truncated"  # the file ends before the picture does
    CORRUPT = "corrupt"  # the content contradicts itself
    TOO_LARGE = "too_large"  # decoding needs more memory than allowed
    NO_PREVIEW = "no_preview"  # a RAW file without an embedded preview
    UNREADABLE = "unreadable"  # the operating system did not let us read it
    MISSING = "missing"  # the file was in the folder's listing and has been deleted since


_HINTS = {
    FailureReason.EMPTY_FILE: "copy the file again from its source",
    FailureReason.NOT_AN_IMAGE: "remove the file or give it an extension that is not a picture's",
    FailureReason.UNSUPPORTED: "convert it to JPEG, PNG, WebP, TIFF, HEIC or AVIF",
    FailureReason.TRUNCATED: "copy the file again from its source",
    FailureReason.CORRUPT: "open it in an image editor and save it again",
    FailureReason.TOO_LARGE: "raise index.max_decoded_mb, or save a smaller copy (JPEGs are decoded at reduced size)",
    FailureReason.NO_PREVIEW: "export the RAW file as JPEG or TIFF",
    FailureReason.UNREADABLE: "check the file's permissions and the disk",
    FailureReason.MISSING: "run the index again: the folder changed meanwhile",
}


def image_error(reason: FailureReason, message: str, **details: str | int) -> ImageError:
    """Build the error for `reason`: `ImageTooLargeError` for TOO_LARGE, `ImageError` for the rest."""
    kind = ImageTooLargeError if reason is FailureReason.TOO_LARGE else ImageError
    return kind(message, hint=_HINTS[reason], reason=reason.value, **details)


def too_large(size: tuple[int, int], kind: str, needed: int, allowed: int) -> ImageError:
    """Build the error for a picture of `size` (width, height) that needs more than `allowed` bytes to decode."""
    return image_error(
        FailureReason.TOO_LARGE,
        f"{size[0]} x {size[1]} pixels of {kind} need {needed >> 20} MB to decode; {allowed >> 20} MB are allowed",
        format=kind,
        width=size[0],
        height=size[1],
        needed_bytes=needed,
        allowed_bytes=allowed,
    )


def unreadable(error: OSError) -> ImageError:
    """Build the error for a file that the operating system does not let us read."""
    gone = error.errno in {errno.ENOENT, errno.ENOTDIR}
    reason = FailureReason.MISSING if gone else FailureReason.UNREADABLE
    return image_error(reason, f"cannot read the file: {error.strerror or error}")
