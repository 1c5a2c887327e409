"""The use cases of a home whose models run in this process and are shared by its queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lodestone.config.settings import Settings
from lodestone.services.sessions.serving import ServingSession
from lodestone.services.use_cases import Services, make_services
from lodestone_serve.inference.shared_passes import LocalStages

if TYPE_CHECKING:
    from lodestone.directories.watch import WatchDelays
    from lodestone.generators.engine_call import HubObserver
    from lodestone.home.runtime import Runtime


def home_session(
    settings: Settings,
    *,
    observe_batch: Callable[[int], None] = lambda _: None,
    observe_pictures: Callable[[int], None] = lambda _: None,
    observe_engines: HubObserver | None = None,
    delays: WatchDelays | None = None,
) -> ServingSession:
    """Return the session of the home of `settings`, not opened.

    Args:
        settings: Settings of the home.
        observe_batch: Called with the number of texts of every pass that queries share.
        observe_pictures: Called with the number of pictures of every such pass.
        observe_engines: Notified of what happens to guide engines.
        delays: Times of the watcher of directories.
    """

    def stages(runtime: Runtime) -> LocalStages:
        return LocalStages(runtime, observe=observe_batch, observe_pictures=observe_pictures)

    return ServingSession(settings, observe_engines=observe_engines, stages=stages, delays=delays)


def home_services(
    settings: Settings,
    *,
    observe_batch: Callable[[int], None] = lambda _: None,
    observe_engines: HubObserver | None = None,
) -> Services:
    """Return the use cases of the home of `settings`; their session is not opened. Arguments are those of `home_session`."""
    return make_services(home_session(settings, observe_batch=observe_batch, observe_engines=observe_engines))
