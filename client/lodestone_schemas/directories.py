"""API models of directories: their description, adding and changing them, and background indexing jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from lodestone_schemas.base import NEXT_CURSOR


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DirectoryInfo(_Model):
    """Describes one directory: a folder (or bucket, table, archive) whose pictures are indexed."""

    directory_id: str
    name: str = Field(description="Unique in its corpus; what filters call its root.")
    corpus: str
    kind: str = Field(description="folder, object, table or tar.")
    enabled: bool = Field(description="Whether its pictures are found. They are kept either way.")
    watched: bool = Field(description="Whether the service indexes it when its files change.")
    images: int = Field(description="Pictures that are embedded.")
    waiting: int = Field(description="Pictures that are known and not embedded yet.")
    failed: int = Field(description="Files that could not be used.")
    indexing: bool = Field(description="Whether work for its corpus is going on or waiting.")
    exclude: list[str] = Field(default_factory=list, description="Patterns of what is left out, as in a .gitignore.")
    scanned_at: datetime | None = Field(None, description="When the last run that looked at all of it began.")


class DirectoryPage(_Model):
    """Holds one page of directories, by corpus and name."""

    directories: list[DirectoryInfo]
    next_offset: int | None = None
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)


class DirectoryRequest(_Model):
    """Requests that a folder is added."""

    path: str = Field(min_length=1, max_length=4096, description="Absolute, on the machine of the service.")
    corpus: str = Field("default", min_length=1, max_length=200)
    watch: bool = Field(False, description="Index it again whenever its files change.")
    index: bool = Field(True, description="Index it now, in the background.")


class DirectoryRelocation(_Model):
    """Requests that a directory gets the folder where its pictures are now."""

    path: str = Field(min_length=1, max_length=4096, description="Absolute, on the machine of the service.")
    index: bool = Field(True, description="Index it now, in the background.")


class DirectorySplit(_Model):
    """Requests that a folder inside a directory becomes a directory of its own."""

    folder: str = Field(min_length=1, max_length=4096, description="Path inside the directory, such as 2018/summer.")


class DirectoryChange(_Model):
    """Requests changes of a directory; members that are left out stay unchanged."""

    enabled: bool | None = None
    watched: bool | None = None
    exclude: list[Annotated[str, Field(min_length=1, max_length=1000)]] | None = Field(
        None, max_length=1000, description="All patterns of what is left out of a folder, as in a .gitignore; next run on."
    )


JobState = Literal["waiting", "running", "done", "failed", "cancelled"]


class JobInfo(_Model):
    """Describes one job of background indexing."""

    job_id: str
    corpus: str
    reason: str = Field(description="added, asked, watched or repair.")
    state: JobState
    stage: str = ""
    done: int = 0
    total: int = 0
    run_id: str | None = Field(None, description="Its run in the catalog, once it has ended well.")
    counts: dict[str, int] = Field(default_factory=dict)
    error: str = ""


class JobList(_Model):
    """Lists the jobs that run, that wait, and that ended last; oldest first."""

    jobs: list[JobInfo]


class DirectoryAdded(_Model):
    """Holds a directory, and the job that indexes it (null when none was requested)."""

    directory: DirectoryInfo
    job: JobInfo | None = None
    relocated: bool = Field(False, description="Whether it is a known directory whose folder is there now: pictures keep ids.")
