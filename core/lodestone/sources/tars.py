"""Listing of the pictures in a tar: it is read once from its beginning, in one stream, and each picture is hashed on the way.

The layout is that of WebDataset: the files of one sample follow each other and share the name up to the first dot; `.txt`
beside a picture holds its captions. Sorting, file times and directories inside the archive do not matter.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Final

from lodestone.errors import SourceError
from lodestone.files.tokens import hash_bytes
from lodestone.sources.base import FoundFile
from lodestone.sources.captions import caption_lines
from lodestone.sources.folders import is_picture_name
from lodestone.sources.locators import TAR, Inside, uri_inside
from lodestone.sources.uris import uri_of

_BUFFER_BYTES: Final = 1 << 20
_MAX_TEXT_BYTES: Final = 256 << 10
_TEXT: Final = ".txt"


def tar_pictures(stream: IO[bytes], *, uri: str, where: str, mtime_ns: int) -> Iterator[FoundFile]:
    """Yield the pictures of one archive, in its order.

    Args:
        stream: Read from its beginning to its end.
        uri: Uri of the archive inside the root.
        where: Path or URL of the archive.
        mtime_ns: Last change of the archive, nanoseconds since the epoch.

    Raises:
        SourceError: it is no tar, is compressed, or ends too early. Pictures before the damage are yielded.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER_BYTES) as archive:
            yield from _samples(archive, uri, where, mtime_ns)
    except (tarfile.TarError, EOFError) as error:
        truncated = "end of" in str(error) or "truncated" in str(error)
        raise SourceError(
            f"the archive {uri!r} is {'cut short' if truncated else 'no uncompressed tar'}: {error}",
            hint="copy or write it again; compressed archives must be unpacked",
            reason="truncated" if truncated else "corrupt",
        ) from error


def _samples(archive: tarfile.TarFile, uri: str, where: str, mtime_ns: int) -> Iterator[FoundFile]:
    """Yield pictures sample by sample, after the sample's last file: its texts may follow its pictures."""
    key = ""
    held: list[tuple[str, int, int, str]] = []  # name, offset, size, hash
    texts: tuple[str, ...] = ()
    for member in archive:
        archive.members = []  # type: ignore[attr-defined]  # tarfile would keep them all
        if not member.isreg():
            continue
        name = member.name.removeprefix("./").lstrip("/")
        if (member_key := _key(name)) != key:
            yield from _found_files(held, texts, uri, where, mtime_ns)
            key, held, texts = member_key, [], ()
        base = PurePosixPath(name).name
        if is_picture_name(base):
            held.append((name, member.offset_data, member.size, hash_bytes(_content(archive, member))))
        elif base.lower().endswith(_TEXT) and member.size <= _MAX_TEXT_BYTES:
            texts = (*texts, *caption_lines(_content(archive, member)))
    yield from _found_files(held, texts, uri, where, mtime_ns)


def _found_files(
    held: list[tuple[str, int, int, str]], texts: tuple[str, ...], uri: str, where: str, mtime_ns: int
) -> Iterator[FoundFile]:
    for name, offset, size, content in held:
        yield FoundFile(
            uri=uri_inside(uri, uri_of(name), TAR),
            locator=str(Inside("tar", offset, where)),
            size=size,
            mtime_ns=mtime_ns,
            token=content,
            position=offset,
            captions=texts,
        )


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()


def _key(name: str) -> str:
    folder, _, base = name.rpartition("/")
    return f"{folder}/{base.partition('.')[0]}"
