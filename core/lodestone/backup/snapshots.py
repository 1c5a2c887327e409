"""Layout of a backup, manifests of its snapshots, and checked reading of its files.

    snapshots/<name>/manifest.json            written last: a snapshot without one does not exist
    snapshots/<name>/catalog/<table>-00000.parquet
    files/<ab>/<checksum>                     embeddings and artifacts of all snapshots, by BLAKE3 of their content
    thumbnails/<ab>/<hash>.jpg                only if they were asked for; single ones
    thumbnails/packs/<corpus>/<ab>/<fp>.thumbnails   those of a slice (imaging/thumbnail_packs.py)

A backup is a folder or a bucket. A file that an earlier snapshot copied is not copied again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import ClassVar, Final
from uuid import uuid4

import pyarrow as pa
from blake3 import blake3
from pydantic import ConfigDict, NonNegativeInt, TypeAdapter, ValidationError
from pydantic_core import from_json

from lodestone.backup.paths import require_table
from lodestone.config.home import is_home_id
from lodestone.errors import ConfigurationError, EmbeddingsDamagedError, HomeVersionError, NotFoundError
from lodestone.files.area import FileArea

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
SNAPSHOTS: Final = "snapshots"
FILES: Final = "files"
THUMBNAILS: Final = "thumbnails"
_TIME: Final = "%Y%m%dT%H%M%S.%f"
_MOST_BYTES: Final = 256 << 20  # a manifest has some hundred bytes for each table's file and each lacking part
_AS_WRITTEN: Final = ConfigDict(strict=True, extra="forbid")  # a manifest may be forged: nothing is converted


@dataclass(frozen=True, slots=True)
class TableFile:
    """Parquet file that holds some rows of one table."""

    __pydantic_config__: ClassVar[ConfigDict] = _AS_WRITTEN

    table: str
    path: str
    rows: NonNegativeInt
    size: NonNegativeInt
    checksum: str


@dataclass(frozen=True, slots=True)
class OtherFile:
    """File of the home (an artifact or its settings); `path` is relative to the home."""

    __pydantic_config__: ClassVar[ConfigDict] = _AS_WRITTEN

    path: str
    size: NonNegativeInt
    checksum: str


@dataclass(frozen=True, slots=True)
class LackingPart:
    """Embeddings file that could not be backed up; a restored home embeds the slice again."""

    __pydantic_config__: ClassVar[ConfigDict] = _AS_WRITTEN

    slice_id: str
    part: str
    why: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest that describes the contents of one snapshot."""

    __pydantic_config__: ClassVar[ConfigDict] = _AS_WRITTEN

    name: str
    created_at: datetime
    lodestone: str
    home_id: str
    profile: str
    revision: str  # revision of the catalog's schema
    tables: tuple[TableFile, ...]
    others: tuple[OtherFile, ...] = ()
    lacking: tuple[LackingPart, ...] = ()
    images: NonNegativeInt = 0
    embedding_files: NonNegativeInt = 0
    embedding_bytes: NonNegativeInt = 0
    thumbnails: bool = False
    format: int = field(default=FORMAT)

    def to_json(self) -> bytes:
        """Return the content of the manifest's file, as UTF-8 JSON."""
        return json.dumps(asdict(self), default=lambda value: value.isoformat(), ensure_ascii=False, indent=1).encode()

    @staticmethod
    def from_json(content: bytes, *, where: str) -> Manifest:
        """Parse the content of a manifest's file.

        Raises:
            HomeVersionError: A newer Lodestone wrote it.
            ConfigurationError: It is damaged.
        """
        try:
            written_format = from_json(content)["format"]
            if isinstance(written_format, int) and written_format > FORMAT:
                raise HomeVersionError(
                    f"the backup {where!r} has format {written_format}; this Lodestone reads {FORMAT}", hint="upgrade Lodestone"
                )
            manifest = _parser().validate_json(content)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"the manifest of {where!r} cannot be read: {_first_problem(error)}",
                hint="take another snapshot (`lodestone backup list`): this one is damaged",
            ) from error
        return manifest


@dataclass(frozen=True, slots=True)
class UnreadableSnapshot:
    """Snapshot whose manifest is damaged or forged; `problem` says how."""

    name: str
    problem: str


def new_name(area: FileArea) -> str:
    """Return a name for a snapshot taken now; names sort by time, even if the clock was set back."""
    moment = datetime.now(UTC)
    names = area.names(SNAPSHOTS)[0]
    with suppress(IndexError, ValueError):
        last = datetime.strptime(names[-1].partition("Z")[0], _TIME).replace(tzinfo=UTC)
        moment = max(moment, last + timedelta(microseconds=1))
    return f"{moment.strftime(_TIME)}Z-{uuid4().hex[:6]}"


def folder_of(name: str) -> str:
    """Return the folder of the snapshot called `name`."""
    return f"{SNAPSHOTS}/{name}"


def pooled(checksum: str) -> str:
    """Return the path in the backup of the file with this checksum.

    Raises:
        ValueError: `checksum` is not a checksum.
    """
    if len(checksum) < 16 or not set("0123456789abcdef").issuperset(checksum):
        raise ValueError(f"not a checksum: {checksum!r}")
    return f"{FILES}/{checksum[:2]}/{checksum}"


def snapshots(area: FileArea) -> list[Manifest]:
    """Return the manifests of all finished snapshots, oldest first.

    Raises:
        ConfigurationError: One of them cannot be read.
    """
    names, _ = area.names(SNAPSHOTS)
    return [manifest for name in names if (manifest := _manifest(area, name)) is not None]


def all_snapshots(area: FileArea) -> list[Manifest | UnreadableSnapshot]:
    """Return all finished snapshots, oldest first, also those whose manifest cannot be read."""
    found: list[Manifest | UnreadableSnapshot] = []
    for name in area.names(SNAPSHOTS)[0]:
        try:
            manifest = _manifest(area, name)
        except (ConfigurationError, HomeVersionError) as error:
            found.append(UnreadableSnapshot(name, error.message))
        else:
            found += [manifest] if manifest is not None else []
    return found


def snapshot(area: FileArea, name: str | None = None) -> Manifest:
    """Return the manifest of the snapshot of that name, or of the last finished one.

    Raises:
        NotFoundError: There is no such snapshot.
    """
    names = [name] if name else list(reversed(area.names(SNAPSHOTS)[0]))
    for candidate in names:
        manifest = _manifest(area, candidate)
        if manifest is not None:
            return manifest
    what = f"snapshot {name!r}" if name else "snapshot"
    raise NotFoundError(
        f"there is no finished {what} in {area.location!r}",
        hint="`lodestone backup list` shows what is there; `lodestone backup create` makes one",
    )


def read_checked(area: FileArea, path: str, *, size: int, checksum: str) -> pa.Buffer:
    """Read a file and check it against its recorded size and checksum.

    Raises:
        EmbeddingsDamagedError: The file is missing, or its content has changed.
    """
    try:
        content = area.read(path)
    except FileNotFoundError as error:
        raise _damaged(area, path, "is missing") from error
    except (OSError, pa.ArrowException) as error:
        raise _damaged(area, path, f"cannot be read ({error})") from error
    if content.size != size:
        raise _damaged(area, path, f"has {content.size} bytes instead of {size}")
    if blake3(content).hexdigest() != checksum:
        raise _damaged(area, path, "has another checksum")
    return content


def total(files: Sequence[TableFile], table: str) -> int:
    """Return the number of rows of one table, over all its files."""
    return sum(file.rows for file in files if file.table == table)


def _manifest(area: FileArea, name: str) -> Manifest | None:
    where = f"{area.location}/{folder_of(name)}"
    try:
        content = area.read(f"{folder_of(name)}/{MANIFEST}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(where, error) from error
    if content.size > _MOST_BYTES:
        raise _unusable(where, f"it has {content.size:,} bytes")
    manifest = Manifest.from_json(bytes(content), where=where)
    try:
        if manifest.name != name:
            raise ValueError(f"it is the one of {manifest.name!r}")
        if not is_home_id(manifest.home_id):
            raise ValueError(f"{manifest.home_id[:80]!r} is no id of a home")
        for file in manifest.tables:
            require_table(file.path, folder=folder_of(name))
        for other in manifest.others:
            pooled(other.checksum)
    except ValueError as error:
        raise _unusable(where, error) from error
    return manifest


def _unusable(where: str, why: object) -> ConfigurationError:
    return ConfigurationError(
        f"the manifest of {where!r} cannot be used: {why}",
        hint="take another snapshot (`lodestone backup list`): this one is damaged or forged",
    )


@cache
def _parser() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)


def _first_problem(error: Exception) -> object:
    """Return what is wrong, in a line."""
    if not isinstance(error, ValidationError):
        return error
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(place) for place in first['loc'])}: {first['msg']}"


def _damaged(area: FileArea, path: str, what: str) -> EmbeddingsDamagedError:
    return EmbeddingsDamagedError(
        f"the file {f'{area.location}/{path}'!r} {what}",
        hint="`lodestone backup verify` lists what is damaged; `lodestone backup create --check` copies it again",
        path=path,
    )
