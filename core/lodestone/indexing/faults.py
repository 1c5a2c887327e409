"""Fault injection for crash tests: named points of the index job at which a test can kill the process.

`LODESTONE_FAULT=after-rename:3` sends SIGKILL to the process that reaches the point `after-rename` for the third time. Crash
safety cannot be tested otherwise: the kill must fall between two lines, and no handler may run. Without the variable a point
costs one comparison.

Points: `discovering` (a batch of files was entered in the catalog), `embedding` (a batch of pictures went through the models),
`after-rename` (a Parquet file has its final name and no receipt yet), `loading` (a batch was upserted into a collection),
`before-promotion` (everything is loaded and verified, aliases are not moved); of a restore, `restoring` (a Parquet file was
copied); of a restore and of `catalog rebuild`, `catalog-made` (the catalog is complete, and nothing is loaded); of an export,
`exporting` (a file has its final name and no receipt yet).

`LODESTONE_FAULT=picture:poison.jpg` kills every process that begins to decode a picture whose uri ends with that text, as a
broken file does that crashes its decoder.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Final, Literal, get_args

from lodestone.errors import ConfigurationError

VARIABLE: Final = "LODESTONE_FAULT"
_PICTURE: Final = "picture"

FaultPoint = Literal[
    "discovering", "embedding", "after-rename", "loading", "before-promotion", "restoring", "catalog-made", "exporting"
]
POINTS: Final[tuple[FaultPoint, ...]] = get_args(FaultPoint)


@dataclass(slots=True)
class Faults:
    """Counts the visits to one point and kills the process at the last of them.

    Attributes:
        point: The point at which to kill the process; empty for none.
        remaining: Visits until then.
        picture: End of the uri of the picture at which to kill the process instead.
    """

    point: str = ""
    remaining: int = 0
    picture: str = ""

    @classmethod
    def from_environment(cls) -> Faults:
        """Read `LODESTONE_FAULT`, once a run.

        Raises:
            ConfigurationError: it is neither `point:count` with a known point and a count from 1 nor `picture:name`.
        """
        variable = os.environ.get(VARIABLE, "")
        if not variable:
            return cls()
        point, _, count = variable.partition(":")
        if point == _PICTURE and count:
            return cls(picture=count)
        if point not in POINTS or not (count or "1").isdecimal() or int(count or 1) < 1:
            raise ConfigurationError(
                f"{VARIABLE}={variable!r} is not a point and a count", hint=f"e.g. after-rename:3; points: {', '.join(POINTS)}"
            )
        return cls(point, int(count or 1))

    def reach(self, point: FaultPoint) -> None:
        """Kill the process if this is the visit that `LODESTONE_FAULT` names."""
        if point != self.point:
            return
        self.remaining -= 1
        if self.remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def reach_picture(self, uri: str) -> None:
        """Kill the process if this is the picture that `LODESTONE_FAULT` names."""
        if self.picture and uri.endswith(self.picture):
            os.kill(os.getpid(), signal.SIGKILL)
