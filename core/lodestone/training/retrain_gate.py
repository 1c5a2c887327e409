"""Retraining of a home's complexity gate (`lodestone train complexity`): answer judged queries, fit, save, activate.

Every judged query is answered with all its guides, whatever the active gate decides, and leaves no tags and no records: open
the home with `TRAINING` among the settings. Feedback on recorded answers counts as well. Indexing and searching continue as
before; a running service uses the new gate after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lodestone.catalog.records import RunState
from lodestone.errors import ConfigurationError
from lodestone.indexing.progress import Meter, Progress, RunStage, silent
from lodestone.training.complexity import MOST_LOSS, GateReport, Observation, fit_gate
from lodestone.training.judgements import JudgedQuery, observations_of_feedback, precision_of, resolve
from lodestone_schemas.api import MAX_LIMIT, ResultsEvent, SearchRequest

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.query.engine import QueryEngine

KIND: Final = "gate"
# Settings of a home that is opened for training: the gate judges every query and stops none, and queries leave no tags.
TRAINING: Final[Mapping[str, Any]] = MappingProxyType(
    {"query": {"gate": True, "gate_threshold": 1.0}, "tags": {"implicit": False}}
)


@dataclass(frozen=True, slots=True)
class ComplexityReport:
    """Reports what training did.

    Attributes:
        run_id: Id of the run in the catalog.
        fit: Figures, cross-validated.
        judged: Number of judged queries that were answered.
        feedback: Number of recorded answers that users had judged.
        unknown: File names in the judgements that no single picture has.
        promoted: Whether the new gate is active.
    """

    run_id: str
    fit: GateReport
    judged: int
    feedback: int
    unknown: tuple[str, ...]
    promoted: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-serialisable dict."""
        return {
            "run_id": self.run_id,
            **self.fit.as_dict(),
            "judged": self.judged,
            "feedback": self.feedback,
            "unknown": list(self.unknown),
            "promoted": self.promoted,
        }


def train_complexity(
    runtime: Runtime,
    judgements: Mapping[str, Sequence[str]] | None,
    *,
    feedback: bool = True,
    most_loss: float = MOST_LOSS,
    dry_run: bool = False,
    progress: Progress = silent,
) -> ComplexityReport:
    """Fit the complexity gate for this home and activate it.

    Args:
        runtime: The home, opened with `TRAINING`; this process owns the store.
        judgements: Query -> names of the right pictures (`judgements.read_judgements`); None for feedback only.
        feedback: Whether to learn from feedback, too.
        most_loss: Mean average precision that the gate may cost, in [0, 1].
        dry_run: Whether to fit and measure only.
        progress: Progress callback.

    Raises:
        InvalidRequestError: too few judged queries, or one without words.
        ConfigurationError: the home was not opened with `TRAINING`.
        StoreLockedError: another process owns the store.
    """
    _check(runtime)
    catalog = runtime.catalog
    run = catalog.start_run("train-complexity")
    try:
        judged, unknown = resolve(judgements or {}, catalog)
        answered = asyncio.run(_ask(runtime.engine(recording=False), judged, progress)) if judged else []
        judged_answers = list(observations_of_feedback(catalog)) if feedback else []
        active = runtime.gate()
        provenance = {"judged": len(answered), "feedback": len(judged_answers), "profile": runtime.profile.name}
        model, report = fit_gate(
            [*answered, *judged_answers], most_loss=most_loss, threshold=active.threshold, provenance=provenance
        )
        model = replace(model, provenance={**provenance, "figures": report.as_dict()})
        if not dry_run:
            path = model.save(runtime.home.artifacts / KIND)
            catalog.add_artifact(KIND, model.version, f"{KIND}/{path.name}", report.as_dict())
            catalog.activate_artifact(KIND, model.version)
    except BaseException as error:
        catalog.finish_run(run.run_id, RunState.FAILED, f"{type(error).__name__}: {error}")
        raise
    catalog.update_run(run.run_id, stage="done", counts={"judged": len(answered), "feedback": len(judged_answers)})
    catalog.finish_run(run.run_id, RunState.DONE)
    return ComplexityReport(run.run_id, report, len(answered), len(judged_answers), tuple(unknown), promoted=not dry_run)


async def _ask(engine: QueryEngine, judged: Sequence[JudgedQuery], progress: Progress) -> list[Observation]:
    """Answer every query, and return their observations; queries for which the gate has no features are left out."""
    await engine.warm_up()
    meter = Meter(progress, RunStage.ASK, total=len(judged))
    observations = []
    for query in judged:
        observation = await _observe(engine, query)
        if observation is not None:
            observations.append(observation)
        meter.add(1)
    return observations


async def _observe(engine: QueryEngine, judged: JudgedQuery) -> Observation | None:
    request = SearchRequest(query=judged.text, limit=MAX_LIMIT, gate=True)
    text = guided = None
    values: dict[str, float] = {}
    async with aclosing(engine.events(request)) as events:
        async for event in events:
            if isinstance(event, ResultsEvent):
                response = event.response
                ap = precision_of([hit.image_id for hit in response.hits], judged.relevant)
                if response.stage == "text":
                    text, values = ap, dict(response.gate.features) if response.gate else {}
                else:
                    guided = ap
    if text is None or not values:
        return None
    # Without guides the answer is the text pass's, so both figures are equal.
    return Observation(values, text, text if guided is None else guided, judged.text)


def _check(runtime: Runtime) -> None:
    query, wanted = runtime.settings.query, TRAINING["query"]
    if any(getattr(query, name) != value for name, value in wanted.items()) or runtime.settings.tags.implicit:
        raise ConfigurationError(
            "the home was not opened for training the gate: its queries would leave tags, or stop early",
            hint="open it with lodestone.training.retrain_gate.TRAINING among the settings",
        )
