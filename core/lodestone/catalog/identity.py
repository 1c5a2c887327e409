"""Ids of pictures, captions and tags, as pure functions: the same facts give the same id in every process."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha1
from uuid import UUID, uuid5


def mint_image_id(corpus_id: str, root_name: str, uri: str, *, attempt: int = 0) -> str:
    """Return the id of a picture when it is first seen: uuid5 of the corpus and `root_name/uri`.

    Args:
        corpus_id: UUID of the corpus.
        root_name: Name of the root (not its path: a collection may move as a whole).
        uri: Path inside the root.
        attempt: 0 at first. A picture that moved away keeps the id minted from its old path, so a new picture at that path
            takes the next attempt.
    """
    name = f"{root_name}/{uri}" if attempt == 0 else f"{root_name}/{uri}#{attempt}"
    return str(uuid5(UUID(corpus_id), name))


def caption_id(image_id: str, source: str, text: str) -> str:
    """Return the id of a caption, its point id in the `captions` collection: uuid5 of its picture and `source/text`."""
    # As `str(uuid5(UUID(image_id), ...))`, at a fifth of its time: queries ask for the ids of hundreds of captions.
    digest = sha1(_bytes_of(image_id) + f"{source}/{text}".encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def tag_id(image_id: str, source: str, text: str) -> str:
    """Return the id of a tag: uuid5 of its picture and `tag/source/text`."""
    return str(uuid5(UUID(image_id), f"tag/{source}/{text}"))


@lru_cache(maxsize=8)  # captions come picture by picture
def _bytes_of(image_id: str) -> bytes:
    return UUID(image_id).bytes
