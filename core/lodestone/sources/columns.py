"""Choice of a table's columns: those of pictures, names and texts are found by type and by usual names, without options.

Pictures are in a struct of `bytes` and `path` (as Hugging Face does), a binary column, or else a text column of paths or URLs.
Names are in a text or number column with a usual name. Texts are in `caption`, `text` and the like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES_NAMES: Final = (
    "image",
    "img",
    "picture",
    "photo",
    "jpg",
    "jpeg",
    "png",
    "webp",
    "bytes",
    "data",
    "content",
    "image_bytes",
)
_URI_NAMES: Final = (
    *("uri", "url", "image_uri", "image_url", "image_path", "path", "filepath", "file_path", "file", "filename", "file_name"),
    *("image", "img", "picture", "photo", "src", "link"),
)
_NAME_NAMES: Final = ("name", "filename", "file_name", "path", "file", "__key__", "key", "id", "image_id", "uri", "url")
_TEXT_NAMES: Final = ("caption", "captions", "text", "texts", "description", "title", "alt")


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a table that are read.

    Attributes:
        picture: Column of bytes, of structs with `bytes`, or of uris.
        holds_bytes: True when the pictures themselves are in the table.
        is_struct: True when `picture` is a struct of `bytes` and perhaps `path`.
        name: Column of names, "" for none.
        text: Column of captions, "" for none.
    """

    picture: str
    holds_bytes: bool
    is_struct: bool = False
    name: str = ""
    text: str = ""

    @property
    def all(self) -> list[str]:
        """Return the names of all these columns, each once."""
        return list(dict.fromkeys(name for name in (self.picture, self.name, self.text) if name))


def find_columns(schema: pa.Schema, table: str) -> Columns:
    """Return the columns of a schema to read.

    Raises:
        SourceError: no column holds pictures.
    """
    import pyarrow as pa

    fields = {field.name: field.type for field in schema}
    structs = [name for name, kind in fields.items() if pa.types.is_struct(kind) and _has_bytes(kind)]
    binary = [name for name, kind in fields.items() if _is_binary(kind)]
    texts = [name for name, kind in fields.items() if _is_text(kind)]
    scalars = [name for name, kind in fields.items() if _is_text(kind) or pa.types.is_integer(kind)]
    text_columns = [name for name, kind in fields.items() if _is_text(kind) or _is_list_of_text(kind)]
    text = _called(text_columns, _TEXT_NAMES)
    if structs or binary:
        picture = _called(structs, _BYTES_NAMES) or (structs[0] if structs else "") or _called(binary, _BYTES_NAMES)
        picture = picture or (binary[0] if len(binary) == 1 else "")
        if picture:
            name = _called([column for column in scalars if column != text], _NAME_NAMES)
            return Columns(picture, holds_bytes=True, is_struct=picture in structs, name=name, text=text)
    uri = _called([column for column in texts if column != text], _URI_NAMES)
    if not uri:
        listed = ", ".join(f"{name} ({kind})" for name, kind in list(fields.items())[:12])
        raise SourceError(
            f"the table {table!r} has no column of pictures: {listed}",
            hint="call the column of bytes `image`, or the column of paths or URLs `uri`",
            reason="no_pictures",
        )
    return Columns(uri, holds_bytes=False, text=text)


def _called(names: Sequence[str], wanted: Sequence[str]) -> str:
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[name] for name in wanted if name in by_lower), "")


def _is_binary(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_list_of_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_text(kind.value_type)


def _has_bytes(kind: pa.DataType) -> bool:
    index = kind.get_field_index("bytes")
    return bool(index >= 0 and _is_binary(kind.field(index).type))
