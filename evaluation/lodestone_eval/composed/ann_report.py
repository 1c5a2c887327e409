"""Options and report of an evaluation over vectors: one row for each method at each point of a table or curve."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pydantic import Field

from lodestone.errors import InvalidRequestError
from lodestone_eval.compare import Estimate
from lodestone_eval.report import ReportModel
from lodestone_schemas.collections import HnswSpec

Table = Literal["curve", "single modality", "modalities", "weights", "moved weights"]


@dataclass(frozen=True, slots=True)
class AnnOptions:
    """Holds the options of an evaluation over vectors.

    Attributes:
        weights: Weight (square) of each modality; None to choose them on queries that are not measured.
        ks: Numbers of results; the first is that of all tables but the curves.
        wanted: k' of Recall@k(k'); None for k itself, or 1 where right objects are equal.
        efforts: The paper's l: candidates of a search, ascending.
        sample: Most queries to measure.
        seed: Seed of what is drawn.
        hnsw: Parameters of graphs.
    """

    weights: tuple[float, ...] | None = None
    ks: tuple[int, ...] = (10,)
    wanted: int | None = None
    efforts: tuple[int, ...] = (100, 200, 500, 1000)
    sample: int | None = None
    seed: int = 0
    hnsw: HnswSpec = field(default_factory=HnswSpec)

    def __post_init__(self) -> None:
        for name, numbers in (("--k", self.ks), ("--candidates", self.efforts)):
            if not numbers or min(numbers) < 1:
                raise InvalidRequestError(f"{name} needs numbers of at least 1", hint=f"for example {name} 10,100")


class AnnRow(ReportModel):
    """Holds the measurement of one method at one point."""

    table: Table
    method: str
    about: str = Field("", description="What differs from the other rows of the table.")
    weights: list[float]
    k: int
    wanted: int
    effort: int | None = Field(description="Candidates; null where all objects are scored.")
    recall: Estimate
    error: Estimate | None = Field(description="Similarity measurement error of the first result; null without vectors.")
    similarity: list[float | None] = Field(description="Mean similarity of query and first result, a modality.")
    queries_per_second: float


class AnnReport(ReportModel):
    """Holds the report of one run of `lodestone eval ann`."""

    created_at: datetime
    lodestone: str
    vectors: str
    objects: int
    queries: int
    modalities: list[str]
    store: str
    weights: list[float]
    chosen: bool = Field(description="Whether the weights were chosen by grid search, on other queries.")
    rows: list[AnnRow]
    notes: list[str] = Field(default_factory=list)
