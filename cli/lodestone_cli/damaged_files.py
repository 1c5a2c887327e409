"""Search for damaged files of embeddings and packs of thumbnails, with progress, for the commands that check them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lodestone_cli.command_context import CommandContext, printable
from lodestone_cli.progress import shown_counts

if TYPE_CHECKING:
    from lodestone.catalog.records import Corpus, Receipt
    from lodestone.embeddings.thumbnail_upkeep import DamagedPack


def find_damaged(
    context: CommandContext, corpora: Sequence[Corpus], *, deep: bool
) -> tuple[list[tuple[Corpus, Receipt, str]], list[DamagedPack]]:
    """Return the receipts of damaged files, each with its corpus and what is wrong, and the damaged packs of thumbnails.

    Args:
        context: The command, with its home.
        corpora: Corpora whose files are checked.
        deep: Whether contents are read; else sizes alone are compared.
    """
    from lodestone.embeddings.audit import damaged_parts
    from lodestone.embeddings.thumbnail_upkeep import damaged_packs

    runtime = context.runtime
    catalog = runtime.catalog
    found: list[tuple[Corpus, Receipt, str]] = []
    packs: list[DamagedPack] = []
    with shown_counts(context) as count:
        for corpus in corpora:
            files = sum(part.files for part in catalog.part_usage(corpus.corpus_id))
            parts = damaged_parts(
                catalog,
                runtime.embeddings,
                corpus.corpus_id,
                deep=deep,
                report_progress=_told(count, f"checking files of {printable(corpus.name)}", files),
            )
            found += [(corpus, receipt, what) for receipt, what in parts]
            packs += damaged_packs(
                catalog,
                runtime.thumbnails,
                corpus.corpus_id,
                deep=deep,
                report_progress=_told(count, f"checking thumbnails of {printable(corpus.name)}", 0),
            )
    return found, packs


def _told(count: Callable[[str, int, int], None], title: str, files: int) -> Callable[[int], None]:
    """Return what shows how many files are done; their number is unknown where `files` is 0."""
    return lambda done: count(title, done, max(done, files) if files else 0)
