"""Use cases that are imported and made when they are first asked for: a command needs one subject, and starts sooner so.

A service makes all of them at once (`use_cases.make_services`), before it has several threads.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from lodestone.services.sessions.session import HomeSession
    from lodestone.services.use_cases import Services

# Subject -> (module, class), as in `make_services`.
USE_CASES: Final = {
    "search": ("lodestone.services.search", "SearchUseCases"),
    "queries": ("lodestone.services.queries", "QueryUseCases"),
    "learning": ("lodestone.services.learning", "LearningUseCases"),
    "tags": ("lodestone.services.tags", "TagUseCases"),
    "tagging": ("lodestone.services.tagging", "TaggingUseCases"),
    "pictures": ("lodestone.services.pictures", "PictureUseCases"),
    "timeline": ("lodestone.services.timeline", "TimelineUseCases"),
    "corpora": ("lodestone.services.corpora", "CorpusUseCases"),
    "directories": ("lodestone.services.directories", "DirectoryUseCases"),
    "runs": ("lodestone.services.runs", "RunUseCases"),
    "models": ("lodestone.services.models", "ModelUseCases"),
    "keys": ("lodestone.services.keys", "KeyUseCases"),
    "operations": ("lodestone.services.operations", "OperationUseCases"),
    "writes": ("lodestone.services.writes", "WriteUseCases"),
    "rates": ("lodestone.services.writes", "RateUseCases"),
}
_NEED_PICTURES: Final = frozenset({"search", "tagging", "tags"})


class _LazyServices:
    """Stands in for `Services` in one thread: each attribute is made by its first use."""

    def __init__(self, session: HomeSession) -> None:
        self.session = session

    def __getattr__(self, subject: str) -> Any:  # noqa: ANN401 - one of the classes above
        if subject not in USE_CASES:
            raise AttributeError(subject)
        module, name = USE_CASES[subject]
        further = (_LazyPictures(self),) if subject in _NEED_PICTURES else ()
        made = getattr(import_module(module), name)(self.session, *further)
        setattr(self, subject, made)
        return made


class _LazyPictures:
    """Stands in for `PictureUseCases`, which most calls of other use cases do not need."""

    def __init__(self, services: _LazyServices) -> None:
        self._services = services

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a method of PictureUseCases
        return getattr(self._services.pictures, name)


def lazy_services(session: HomeSession) -> Services:
    """Return the use cases of the home of `session` for one thread. Nothing is opened."""
    return cast("Services", _LazyServices(session))
