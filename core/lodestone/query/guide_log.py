"""What became of the generators of one query?"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class GuideLog:
    """`warnings` for failures, `dropped` for what there was no time, budget or need for, each said once; `cost`: charged."""

    warnings: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    cost: float = 0.0

    def failed(self, what: str) -> None:
        """Say what failed."""
        if what not in self.warnings:
            self.warnings.append(what)

    def left_out(self, what: str) -> None:
        """Say what was left out."""
        if what not in self.dropped:
            self.dropped.append(what)
