"""Pictures of an answer as files: printed as paths, opened in a viewer, copied or linked into a folder."""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from lodestone.errors import InvalidRequestError, LodestoneError, NotFoundError, OutOfSpaceError
from lodestone_cli.answer import note_line
from lodestone_cli.command_context import printable
from lodestone_cli.file_names import shown_name
from lodestone_cli.naming import counted, first_few
from lodestone_cli.options import (
    ColumnsOption,
    CopyToOption,
    FormatOption,
    LinkToOption,
    MinScoreOption,
    NulOption,
    OpenOption,
    Output,
    PicturesOption,
    ResultFormat,
)
from lodestone_cli.progress import shown_wait
from lodestone_cli.terminal.desktop import has_screen, open_in_browser

if TYPE_CHECKING:
    from lodestone_cli.command_context import CommandContext
    from lodestone_schemas.api import Hit, SearchResponse

OPENED: Final = 3  # viewers that `--open` starts at most
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NAMED: Final = 3
_VIEWERS: Final = {"darwin": "open", "linux": "xdg-open"}


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """What a search does with the pictures that it found. Each attribute is an option, in the order of the help.

    Attributes:
        form: How they are printed.
        pictures: How a terminal shows them; None for the setting.
        columns: Pictures in a row on a terminal; None for as many as fit.
        nul: Whether paths are printed, each ended by a NUL character instead of a line break.
        opened: Whether the query is opened in the search page, or else the first pictures in the system's viewer.
        copy_to: Folder that they are copied to.
        link_to: Folder in which symbolic links to them are made.
        min_score: Lowest score of the pictures that count.
    """

    form: FormatOption = ResultFormat.LIST
    pictures: PicturesOption = None
    columns: ColumnsOption = None
    nul: NulOption = False
    opened: OpenOption = False
    copy_to: CopyToOption = None
    link_to: LinkToOption = None
    min_score: MinScoreOption = None

    def checked(self, output: Output) -> ResultFiles:
        """Return this choice with paths as its form for `nul`.

        Raises:
            InvalidRequestError: options exclude each other.
        """
        for option, folder in (("--copy-to", self.copy_to), ("--link-to", self.link_to)):
            if folder is not None and folder.expanduser().exists() and not folder.expanduser().is_dir():
                raise InvalidRequestError(f"{option} {str(folder)!r} is no folder", hint="name a folder; a new one is made")
        paths = self.nul or self.form is ResultFormat.PATHS
        if paths and output is not Output.HUMAN:
            option = "-0" if self.nul else "--format paths"
            raise InvalidRequestError(
                f"{option} prints paths, and --output {output.value} prints an answer", hint=f"leave one of them out: {option}"
            )
        return replace(self, form=ResultFormat.PATHS if paths else ResultFormat.LIST)

    def kept(self, response: SearchResponse) -> SearchResponse:
        """Return the answer without the pictures below the lowest score."""
        if self.min_score is None:
            return response
        least = self.min_score
        return response.model_copy(update={"hits": [hit for hit in response.hits if hit.score >= least]})

    def apply(
        self, context: CommandContext, response: SearchResponse, paths: Mapping[str, str], *, page: str | None = None
    ) -> None:
        """Open, copy or link the pictures of an answer that was printed; tell on standard error what was done.

        Args:
            context: The command.
            response: One page of the answer.
            paths: Path on this machine by image id.
            page: Address of the search page at this query; None where no service runs, or its page cannot show the query.

        Raises:
            NotFoundError: the files, the viewer or a browser are not on this machine.
            InvalidRequestError: the folder cannot be written.
            OutOfSpaceError: the disk is full.
        """
        if self.copy_to is not None:
            with shown_wait(context, "copying pictures"):
                _put(context, response.hits, paths, self.copy_to.expanduser(), link=False)
        if self.link_to is not None:
            _put(context, response.hits, paths, self.link_to.expanduser(), link=True)
        if self.opened and page is not None:
            _open_page(context, page)
        elif self.opened and response.hits:
            _open(context, [path for hit in response.hits if (path := paths.get(hit.image_id)) and Path(path).is_file()])


def print_paths(context: CommandContext, response: SearchResponse, paths: Mapping[str, str], *, nul: bool) -> None:
    """Write one path a line, or one before each NUL character, byte for byte; a terminal gets odd names quoted.

    Raises:
        NotFoundError: the service does not tell where its pictures are.
    """
    for warning in response.warnings:
        context.messages.print(printable(f"note: {warning}"), markup=False)
    for note in response.notes:
        context.messages.print(printable(f"note: {note_line(note)}"), markup=False)
    if response.hits and not paths:
        raise _no_paths()
    known = [paths[hit.image_id] for hit in response.hits if hit.image_id in paths]
    if not known:
        context.messages.print("no pictures found")
    if sys.stdout.isatty() and not nul:
        for path in known:
            context.console.print(shown_name(path), markup=False, soft_wrap=True)
        return
    broken = sum("\n" in path for path in known)
    if broken and not nul:
        context.messages.print(f"note: {counted(broken, 'name')} with line breaks: -0 tells where a path ends")
    content = b"".join(os.fsencode(path) + (b"\0" if nul else b"\n") for path in known)
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _no_paths() -> NotFoundError:
    return NotFoundError(
        "a service elsewhere does not tell where its pictures lie",
        hint="--copy-to FOLDER fetches them; -o json has their ids",
    )


def _open_page(context: CommandContext, page: str) -> None:
    if not open_in_browser(page):
        raise NotFoundError("no browser is known to this system", hint=f"open {page} yourself")
    context.messages.print(printable(f"opened {page}"), style="dim", markup=False)


def _open(context: CommandContext, files: list[str]) -> None:
    if not files:
        raise NotFoundError("none of these pictures is a file of this machine", hint="--copy-to FOLDER fetches them")
    first = files[:OPENED]
    if not has_screen():
        raise NotFoundError(
            "there is no screen here on which a viewer could open",
            hint="--copy-to FOLDER copies them; --pictures shows them here",
        )
    if sys.platform == "win32":
        for file in first:
            os.startfile(file)  # noqa: S606 - the system's own viewer
        return
    viewer = shutil.which(_VIEWERS.get(sys.platform, "xdg-open"))
    if viewer is None:
        raise NotFoundError(
            "no viewer is known to this system: xdg-open is missing",
            hint="install xdg-utils, or pipe to a viewer: -0 | xargs -0",
        )
    for file in first:
        subprocess.Popen(
            [viewer, file],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it stays open when the command has ended
        )
    which = f"the first {OPENED} of {len(files)}" if len(files) > OPENED else counted(len(first), "picture")
    context.messages.print(f"opened {which} in the system's viewer", style="dim")


def _put(context: CommandContext, hits: list[Hit], paths: Mapping[str, str], folder: Path, *, link: bool) -> None:
    made, there, lost = 0, 0, []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for hit in hits:
            path = paths.get(hit.image_id)
            source = Path(path) if path and Path(path).is_file() else None
            if link and source is None:
                lost.append(shown_name(path or f"{hit.root}/{hit.uri}"))
                continue
            try:
                content = None if source is not None else context.api.content(hit.image_id)
            except LodestoneError:
                lost.append(shown_name(path or f"{hit.root}/{hit.uri}"))
                continue
            is_new = _put_one(folder, _name_of(hit, path), source, content, link=link)
            made, there = made + is_new, there + (not is_new)
    except OSError as error:
        if error.errno in _FULL:
            raise OutOfSpaceError(
                f"no space left in {str(folder)!r}", hint="free some space, or name another folder"
            ) from error
        raise InvalidRequestError(
            f"cannot write to {str(folder)!r}: {error.strerror}", hint="name a folder that you may write"
        ) from error
    line = f"{'linked' if link else 'copied'} {counted(made, 'picture')} to {shown_name(str(folder))}"
    line += f"; {there} were there already" if there else ""
    line += f"; {len(lost)} cannot be read: {first_few(lost, _NAMED)}" if lost else ""
    context.messages.print(line, markup=False)


def _name_of(hit: Hit, path: str | None) -> str:
    name = Path(path).name if path else Path(unquote(hit.uri, errors="surrogateescape")).name
    return f"{hit.image_id}.jpg" if name in {"", ".."} else name


def _put_one(folder: Path, name: str, source: Path | None, content: bytes | None, *, link: bool) -> bool:
    """Put one picture into the folder under its name, or `name-2` and so on beside others; return False if it is there."""
    stem, ending = Path(name).stem, Path(name).suffix
    number = 1
    while True:
        target = folder / (name if number == 1 else f"{stem}-{number}{ending}")
        if not os.path.lexists(target):
            break
        if _is_there(target, source, content, link=link):
            return False
        number += 1
    if source is None:
        target.write_bytes(content or b"")
    elif link:
        target.symlink_to(source.absolute())
    else:
        shutil.copy2(source, target)
    return True


def _is_there(target: Path, source: Path | None, content: bytes | None, *, link: bool) -> bool:
    if not target.is_file():
        return False
    if source is None:
        return target.read_bytes() == content
    if target.samefile(source):
        return True
    return not link and filecmp.cmp(source, target, shallow=False)
