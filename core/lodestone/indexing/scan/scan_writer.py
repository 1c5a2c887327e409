"""Writer of a scan's results to the catalog: what the catalog refuses of one picture becomes that picture's failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Failure, ImageRecord, Root
from lodestone.errors import InvalidRequestError
from lodestone.imaging.failures import FailureReason
from lodestone.indexing.scan.caption_changes import Recaptioner
from lodestone.sources.base import FoundFile

CAPTION_REFUSED: Final = "caption_refused"
"""Code of the failure of a picture whose captions the catalog refuses; the picture itself is found."""

_STORABLE_CHARS: Final = 600  # PostgreSQL indexes no text of more than some 2,700 bytes


@dataclass(slots=True)
class ScanWriter:
    """Writes pictures, captions and failures of one run.

    Attributes:
        catalog: Written.
        run_id: Stored in failure rows.
        counts: Counts of the run's files by outcome, which are kept right.
    """

    catalog: Catalog
    run_id: str
    counts: Counter[str]

    def store(
        self, root: Root, updates: Mapping[str, ImageRecord], new: Sequence[ImageRecord], edited: Collection[str]
    ) -> set[str]:
        """Write rows of pictures. Those that the catalog refuses become failures, and the ids of their pictures are returned.

        Args:
            root: Root of the new pictures.
            updates: New rows of known pictures, by id.
            new: Rows of pictures that the catalog does not know yet.
            edited: Ids of the known pictures that have other content.
        """
        try:
            self.catalog.update_images(list(updates.values()), edited=edited)
            self.catalog.add_images(new)
        except InvalidRequestError:
            return self._store_singly(root, updates, new, frozenset(edited))
        return set()

    def recaption(self, recaptioner: Recaptioner, root: Root, files: Sequence[tuple[ImageRecord, FoundFile]]) -> None:
        """Compare captions beside files with the catalog's; where the catalog refuses one, its picture gets a failure row."""
        try:
            recaptioner.compare(files)
        except InvalidRequestError:
            for image, found in files:
                try:
                    recaptioner.compare([(image, found)])
                except InvalidRequestError as error:
                    self.fail(root, image.uri, CAPTION_REFUSED, error.message, image)

    def fail(self, root: Root, uri: str, code: str, message: str, image: ImageRecord | None = None) -> None:
        """Record the failure of one file."""
        failure = Failure(self.run_id, root.root_id, uri, code, message, image_id=image.image_id if image else None)
        try:
            self.catalog.add_failures([failure])
        except InvalidRequestError:  # the name itself is what the catalog refuses, or the message quotes it
            self.catalog.add_failures([replace(failure, uri=_storable(uri), message=_storable(message))])
        self.counts["failures"] += 1

    def _store_singly(
        self, root: Root, updates: Mapping[str, ImageRecord], new: Sequence[ImageRecord], edited: frozenset[str]
    ) -> set[str]:
        refused = set[str]()
        minted = {image.image_id for image in new}
        for image in (*updates.values(), *new):
            try:
                if image.image_id in minted:
                    self.catalog.add_images([image])
                else:
                    self.catalog.update_images([image], edited=edited & {image.image_id})
            except InvalidRequestError as error:
                refused.add(image.image_id)
                self.fail(root, image.uri, FailureReason.UNREADABLE.value, error.message)
                self.counts["new"] -= image.image_id in minted
                self.counts["unreadable"] += 1
        return refused


def _storable(text: str) -> str:
    """Return a text that every database keeps, and every index of it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\ufffd")[:_STORABLE_CHARS]
