"""Words that messages about one kind of remote service use, and what they tell the user to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wording:
    """Nouns and hints in the messages about one kind of service.

    Attributes:
        service: Noun for the service, e.g. "engine".
        file: Noun for what its replies name by an address, e.g. "picture".
        too_slow: Hint after the deadline has passed.
        too_large: Hint after more bytes came than are allowed.
        host_refused: Hint after a reply named an address that is not fetched.
    """

    service: str = "service"
    file: str = "file"
    too_slow: str = "raise the deadline"
    too_large: str = "ask for less, or raise the limit of bytes"
    host_refused: str = "allow the host"
