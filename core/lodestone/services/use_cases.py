"""All use cases of one home in one value: what a service and a command hold."""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.services.corpora import CorpusUseCases
from lodestone.services.directories import DirectoryUseCases
from lodestone.services.keys import KeyUseCases
from lodestone.services.learning import LearningUseCases
from lodestone.services.models import ModelUseCases
from lodestone.services.operations import OperationUseCases
from lodestone.services.pictures import PictureUseCases
from lodestone.services.queries import QueryUseCases
from lodestone.services.runs import RunUseCases
from lodestone.services.search import SearchUseCases
from lodestone.services.sessions.session import HomeSession
from lodestone.services.tagging import TaggingUseCases
from lodestone.services.tags import TagUseCases
from lodestone.services.timeline import TimelineUseCases
from lodestone.services.writes import RateUseCases, WriteUseCases


@dataclass(frozen=True, slots=True)
class Services:
    """The use cases of one home, by subject, and the session that they work in."""

    session: HomeSession
    search: SearchUseCases
    queries: QueryUseCases
    learning: LearningUseCases
    tags: TagUseCases
    tagging: TaggingUseCases
    pictures: PictureUseCases
    timeline: TimelineUseCases
    corpora: CorpusUseCases
    directories: DirectoryUseCases
    runs: RunUseCases
    models: ModelUseCases
    keys: KeyUseCases
    operations: OperationUseCases
    writes: WriteUseCases
    rates: RateUseCases


def make_services(session: HomeSession) -> Services:
    """Return the use cases of the home of `session`. Nothing is opened: `session.open` does that."""
    pictures = PictureUseCases(session)
    return Services(
        session=session,
        search=SearchUseCases(session, pictures),
        queries=QueryUseCases(session),
        learning=LearningUseCases(session),
        tags=TagUseCases(session, pictures),
        tagging=TaggingUseCases(session, pictures),
        pictures=pictures,
        timeline=TimelineUseCases(session),
        corpora=CorpusUseCases(session),
        directories=DirectoryUseCases(session),
        runs=RunUseCases(session),
        models=ModelUseCases(session),
        keys=KeyUseCases(session),
        operations=OperationUseCases(session),
        writes=WriteUseCases(session),
        rates=RateUseCases(session),
    )
