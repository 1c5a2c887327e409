"""Parts of a query that a home has switched on and that can do nothing in it, each with the reason."""

from __future__ import annotations

from typing import Final

from lodestone.config.profiles import Profile
from lodestone.config.settings import QuerySettings
from lodestone.query.deciding.gate import GateModel
from lodestone.query.guides.outliers import FEWEST_GUIDES

GATE: Final = "gate"
OUTLIERS: Final = "outliers"


def idle_parts(profile: Profile, settings: QuerySettings, gate: GateModel) -> dict[str, str]:
    """Return part -> why it does nothing, of the complexity gate and the outlier filter; empty where both can work.

    Args:
        profile: The profile in force.
        settings: The home's settings of queries.
        gate: The gate's model in this home.
    """
    idle = {}
    if (profile.gate if settings.gate is None else settings.gate) and not gate.judges(profile.spaces):
        idle[GATE] = (
            f"off: it was fitted on {', '.join(gate.spaces)}, and this profile searches {', '.join(profile.spaces)}; "
            "fit it here: lodestone train complexity --judgements FILE"
        )
    guides = profile.guides if settings.guides is None else settings.guides
    if settings.outliers and 0 < guides < FEWEST_GUIDES:
        idle[OUTLIERS] = (
            f"judges nothing: a query has {guides} {'guide' if guides == 1 else 'guides'} at most, and below {FEWEST_GUIDES} "
            f"nobody can say which one is unlike the others; draw more with query.guides = {FEWEST_GUIDES}"
        )
    return idle
