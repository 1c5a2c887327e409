"""Names of spaces and lists that more than one package refers to.

A space's name is also the alias of its collection and the `space` of its ranked lists. Captions and tags are not spaces of
pictures, but their collections have aliases and their lists have names too.
"""

from __future__ import annotations

from typing import Final

LABELS: Final = "labels"  # label matching (ConSE)
BRIDGE: Final = "bridge"  # picture features and words in one learnt space
CAPTIONS: Final = "captions"  # vectors of captions; lists of what captions say
TAGS: Final = "tags"  # sparse vectors of tags; lists of what tags say


def captions_collection(version: str) -> str:
    """Return the collection of the captions' vectors of one version of a text encoder."""
    return f"{CAPTIONS}-{version}"
