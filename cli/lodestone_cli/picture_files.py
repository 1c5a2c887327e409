"""Picture files that a user names to search by."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.naming import is_id

if TYPE_CHECKING:
    from lodestone_cli.locators import Locator

_NAMED: Final = 'give a picture file, or an image id: "image_id" in lodestone search -o json'


def picture_file(name: str) -> Path:
    """Return the path of a picture file.

    Raises:
        NotFoundError: there is no such file.
        InvalidRequestError: it is no file, or cannot be read.
    """
    path = Path(name).expanduser()
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"no file {str(path)!r}", hint=_NAMED) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(mode):  # a pipe would block for ever, a device never end
        raise InvalidRequestError(f"{str(path)!r} is no file", hint=_NAMED)
    return path


def picture_id(locator: Locator, name: str) -> str | None:
    """Return the id of the indexed picture that a name means; None for a file that is to be read.

    That is an id, a file that is as it was indexed, or, where there is no such file here, the only picture of that name.

    Raises:
        NotFoundError: there is no such file, and no picture of that name.
        InvalidRequestError: several pictures have the name, or the file cannot be read.
    """
    if is_id(name):
        return name.lower()
    try:
        file = picture_file(name)
    except NotFoundError as missing:
        try:
            return locator.pictures(name)[0]
        except NotFoundError:
            raise missing from None
    return locator.unchanged(file)


def _unreadable(path: Path, error: OSError) -> InvalidRequestError:
    return InvalidRequestError(f"cannot read {str(path)!r}: {error.strerror}", hint="give a readable picture file")


def read_picture(path: Path, *, most_mb: int | None) -> bytes:
    """Return the file's content, for a service that takes at most `most_mb` MiB; None where there is no limit.

    Raises:
        InvalidRequestError: it cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read() if most_mb is None else file.read((most_mb << 20) + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if most_mb is not None and len(content) > most_mb << 20:
        raise InvalidRequestError(
            f"{str(path)!r} is larger than the {most_mb} MB that the service takes",
            hint="raise serve.max_upload_mb and start the service again, or stop it: without one there is no such limit",
        )
    return content
