"""Listing of the pictures in a tar: it is read once from its beginning, in one stream, and each picture is hashed on the way.

The layout is that of WebDataset: the files of one sample follow each other and share the name up to the first dot; `.txt`
beside a picture holds its captions. Sorting, file times and directories inside the archive do not matter.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Final

from lodestone.errors import SourceError
from lodestone.files.bounds import MOST
from lodestone.files.tokens import hash_bytes
from lodestone.imaging.sniff import HEAD_BYTES
from lodestone.sources.base import FoundFile, Report, UnreadablePath
from lodestone.sources.captions import caption_lines
from lodestone.sources.file_kinds import PICTURES, UNKNOWN, is_picture_name, kind_of_head, kind_of_name
from lodestone.sources.locators import TAR, Inside, uri_inside
from lodestone.sources.uris import uri_of

_BUFFER_BYTES: Final = 1 << 20
_MAX_TEXT_BYTES: Final = 256 << 10
_TEXT: Final = ".txt"
_MOST_BYTES: Final = 1 << 30  # of a picture, which is read whole
_LONGEST_NAME: Final = 4096  # characters, as of a path


@dataclass(frozen=True, slots=True)
class TarPlace:
    """An archive that is read.

    Attributes:
        uri: Uri of the archive inside its root.
        where: Path or URL.
        size: Size in bytes.
        mtime_ns: Last change, nanoseconds since 1970-01-01T00:00:00Z.
    """

    uri: str
    where: str
    size: int
    mtime_ns: int


def tar_pictures(stream: IO[bytes], place: TarPlace, report: Report) -> Iterator[FoundFile]:
    """Yield the pictures of one archive, in its order.

    Args:
        stream: Read from its beginning to its end.
        place: The archive.
        report: Called with each picture that the archive's headers make unreadable; the others are yielded.

    Raises:
        SourceError: it is no tar, is compressed, or ends too early. Pictures before the damage are yielded.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER_BYTES) as archive:
            yield from _samples(archive, place, report)
    except (tarfile.TarError, EOFError) as error:
        truncated = "end of" in str(error) or "truncated" in str(error)
        raise SourceError(
            f"the archive {place.uri!r} is {'cut short' if truncated else 'no uncompressed tar'}: {error}",
            hint="copy or write it again; compressed archives must be unpacked",
            reason="truncated" if truncated else "corrupt",
        ) from error


def _samples(archive: tarfile.TarFile, place: TarPlace, report: Report) -> Iterator[FoundFile]:
    """Yield pictures sample by sample, after the sample's last file: its texts may follow its pictures."""
    key = ""
    held: list[tuple[str, int, int, str]] = []  # name, offset, size, hash
    texts: tuple[str, ...] = ()
    for member in archive:
        archive.members = []  # type: ignore[attr-defined]  # tarfile would keep them all
        if not member.isreg() and archive.offset <= place.size + tarfile.BLOCKSIZE:
            continue
        name = member.name.removeprefix("./").lstrip("/").replace("\0", "\ufffd")
        if (member_key := _key(name)) != key:
            yield from _found_files(held, texts, place)
            key, held, texts = member_key, [], ()
        base = PurePosixPath(name).name
        if is_picture_name(base) and (problem := _unusable(member, name, place.size)):
            code, message = problem
            report(UnreadablePath(uri_inside(place.uri, uri_of(name[:_LONGEST_NAME]), TAR), place.where, message, code=code))
        elif (content := _picture(archive, member, base, place.size)) is not None:
            held.append((name, member.offset_data, member.size, hash_bytes(content)))
        elif base.lower().endswith(_TEXT) and member.size <= _MAX_TEXT_BYTES:
            texts = (*texts, *caption_lines(_content(archive, member)))
        if archive.offset > place.size + tarfile.BLOCKSIZE:  # tarfile would read on for as many bytes as the header states
            yield from _found_files(held, texts, place)
            raise tarfile.ReadError(f"unexpected end of data: {name!r} ends behind the end of the archive")
    yield from _found_files(held, texts, place)


def _found_files(held: list[tuple[str, int, int, str]], texts: tuple[str, ...], place: TarPlace) -> Iterator[FoundFile]:
    for name, offset, size, content in held:
        yield FoundFile(
            uri=uri_inside(place.uri, uri_of(name), TAR),
            locator=str(Inside("tar", offset, place.where)),
            size=size,
            mtime_ns=place.mtime_ns,
            token=content,
            position=offset,
            captions=texts,
        )


def _unusable(member: tarfile.TarInfo, name: str, size: int) -> tuple[str, str] | None:
    """Return code and message where a member's header says what no picture can be; None where it may be one."""
    if member.issparse():
        return "unsupported", "the archive holds it as a sparse file: write the archive without --sparse"
    if member.size > size:
        return "truncated", f"its header states {member.size:,} bytes; the whole archive has {size:,}"
    if not 0 <= member.size <= _MOST_BYTES or not 0 <= member.offset_data <= MOST:
        return "too_large", f"its header states {member.size:,} bytes; at most {_MOST_BYTES >> 20} MB are read"
    if len(name) > _LONGEST_NAME:
        return "unreadable", f"its name has {len(name):,} characters; at most {_LONGEST_NAME:,} are read"
    return None


def _picture(archive: tarfile.TarFile, member: tarfile.TarInfo, base: str, size: int) -> bytes | None:
    """Return the content of a member that is a picture by its name, or by its first bytes where its name does not say."""
    kind = kind_of_name(base)
    file = None
    if kind in {PICTURES, UNKNOWN} and not base.startswith(".") and _unusable(member, base, size) is None:
        file = archive.extractfile(member)
    if file is None:
        return None
    head = file.read(HEAD_BYTES)
    return head + file.read() if kind == PICTURES or kind_of_head(head) == PICTURES else None


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()


def _key(name: str) -> str:
    folder, _, base = name.rpartition("/")
    return f"{folder}/{base.partition('.')[0]}"
