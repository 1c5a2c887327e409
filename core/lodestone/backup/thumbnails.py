"""Restoring of thumbnails from a backup, where they have no checksum: what is none is left out, and made again on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lodestone.backup.paths import require_thumbnail
from lodestone.backup.snapshots import THUMBNAILS
from lodestone.imaging.thumbnail_packs import FOLDER as PACKS
from lodestone.imaging.thumbnail_packs import decode

if TYPE_CHECKING:
    import pyarrow as pa

    from lodestone.files.area import FileArea, StoredFile
    from lodestone.imaging.thumbnails import ThumbnailStore
    from lodestone.indexing.resources import StoredHome

_MOST_THUMBNAIL: Final = 4 << 20  # bytes
_JPEG: Final = b"\xff\xd8\xff"


def require_thumbnails(area: FileArea) -> None:
    """Require that the backup's folder of thumbnails has files of theirs alone.

    Raises:
        ConfigurationError: It has another one.
    """
    for stored in area.files(THUMBNAILS):
        require_thumbnail(stored.path.removeprefix(f"{THUMBNAILS}/"))


def restore_thumbnails(resources: StoredHome, area: FileArea) -> None:
    """Copy the thumbnails of a backup that the home lacks."""
    target = resources.thumbnails.area
    for stored in area.files(THUMBNAILS):
        path = stored.path.removeprefix(f"{THUMBNAILS}/")
        require_thumbnail(path)
        if target.folder is not None and path.startswith(f"{PACKS}/"):
            if (pack := _picture(area, stored)) is not None:
                _restore_singly(resources.thumbnails, pack)
        elif target.size(path) != stored.size and (content := _picture(area, stored)) is not None:
            target.write(path, content, durable=False)


def _picture(area: FileArea, stored: StoredFile) -> pa.Buffer | None:
    """Return the content of a thumbnail; None for what is none, which is made again on request.

    Thumbnails have no checksum, and are shown to whoever may search: a link to a file of this machine is not followed.
    """
    is_pack = stored.path.startswith(f"{THUMBNAILS}/{PACKS}/")
    if (area.folder is not None and (area.folder / stored.path).is_symlink()) or (
        not is_pack and stored.size > _MOST_THUMBNAIL
    ):
        return None
    try:
        content = area.read(stored.path)
    except OSError:
        return None
    return content if is_pack or bytes(content[: len(_JPEG)]) == _JPEG else None


def _restore_singly(thumbnails: ThumbnailStore, pack: pa.Buffer) -> None:
    """Write the thumbnails of a pack as single files, as a folder has them; damaged ones are made again on request."""
    for content, data in decode(pack).items():
        if not thumbnails.has(content):
            thumbnails.put(content, data)
