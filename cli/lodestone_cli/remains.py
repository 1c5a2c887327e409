"""What a home still holds after a removal, as commands tell it: bytes that remain, until when, and backups made before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lodestone_cli.file_names import printable

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_cli.command_context import CommandContext


def remains_facts(context: CommandContext) -> dict[str, Any]:
    """Return what remains in a home on this machine, for the output; nothing for a service elsewhere."""
    if context.remote is not None:
        return {}
    from lodestone.indexing.run.remains import remains_of

    remains = remains_of(context.runtime)
    return {
        "remaining": {
            "slices": remains.slices,
            "slice_bytes": remains.slice_bytes,
            "store_bytes": remains.store_bytes,
            "gone": remains.gone,
            "gone_until": remains.gone_until.isoformat() if remains.gone_until else None,
            "notes": remains.sentences(),
        },
        "backups": list(remains.backups),
    }


def print_remains(console: Console, facts: dict[str, Any]) -> None:
    """Print what remains after a removal, and which backups may hold what was removed."""
    print_notes(console, facts)
    for location in facts.get("backups", ()):
        console.print(printable(f"backups made before still hold what was removed: {location}"), markup=False)


def print_notes(console: Console, facts: dict[str, Any]) -> None:
    """Print a sentence for each thing that remains of removed pictures."""
    for note in facts.get("remaining", {}).get("notes", ()):
        console.print(note, markup=False)
