"""How does what was learnt take part in a query? Trust, tags and the gate on the way in, memory on the way out.

Nothing learnt is needed for an answer: what fails or comes too late here is left out, and the answer says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.clock import remaining, within
from lodestone.generators.query_notes import describe_failure
from lodestone.query.gate import GateModel
from lodestone.query.methods import caption_method, methods_of
from lodestone.query.record import trace_of
from lodestone.query.responses import Query
from lodestone.query.stages import EncodedTexts, QueryMemory, TagSource, TrustSource
from lodestone.query_log.recorder import Recorder
from lodestone.query_log.trace import Kind, Trace
from lodestone.retrieval.fusion import RankedList
from lodestone.retrieval.searcher import Ranking, Searcher
from lodestone.store.base import VectorStore
from lodestone_schemas.api import GateDecision, SearchOptions, SearchResponse

_REMEMBER_GRACE_S: Final = 1.0  # an answer is recorded even when its deadline has just passed
_ROOM_S: Final = 0.25  # that an answer waits for room in the recorder's queue
_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class LearnedModels:
    """What use has taught, all of it optional.

    Attributes:
        trust: How far each space is trusted, by topic.
        tags: Finds pictures by tags.
        gate: Predicts how good the text pass is.
        memory: Keeps answered queries.
        recorder: Has them kept behind their answers; None: each answer waits for its record.
    """

    trust: TrustSource | None = None
    tags: TagSource | None = None
    gate: GateModel | None = None
    memory: QueryMemory | None = None
    recorder: Recorder | None = None


class LearnedStages:
    """The stages of a query engine that use has taught.

    Args:
        learnt: What there is.
        store: Where captions are.
        searcher: Scores the shown pictures for the record.
        text_encoder: Whose vectors topics and captions have.
    """

    def __init__(self, learnt: LearnedModels, *, store: VectorStore, searcher: Searcher, text_encoder: str) -> None:
        self._learnt = learnt
        self._store = store
        self._searcher = searcher
        self._text_encoder = text_encoder

    async def with_trust(self, query: Query, texts: EncodedTexts) -> Query:
        """The query with its topic and the trust that feedback has taught."""
        encoder, trust = self._text_encoder, self._learnt.trust
        if trust is None or not query.plan.trust or encoder not in texts.encoded:
            return replace(query, topic=query.plan.topic)
        try:
            asked = asyncio.to_thread(
                trust.assign, texts.encoded[encoder][0], encoder=encoder, topic=query.plan.topic, spaces=list(query.plan.spaces)
            )
            found = await within(asked, query.plan.deadline)
        except TimeoutError:
            query.log.left_out("learnt trust: out of time")
        except Exception as error:  # noqa: BLE001  (nothing learnt is needed for an answer)
            query.log.failed(f"learnt trust is left out: {describe_failure(error)}")
        else:
            return replace(query, topic=found.topic, trust=found.weights)
        return replace(query, topic=query.plan.topic)

    async def tagged(self, query: Query) -> RankedList | None:
        """Pictures whose tags are like the words; None when there are none."""
        plan, source = query.plan, self._learnt.tags
        if source is None or plan.tags is None:
            return None
        with query.stopwatch.stage("tags"):
            try:
                found = await within(
                    asyncio.to_thread(source.search, plan.text, plan.tags, filter_=plan.filter, limit=plan.depth), plan.deadline
                )
            except TimeoutError:
                query.log.left_out("tags: out of time")
            except Exception as error:  # noqa: BLE001  (as above)
                query.log.failed(f"tags are left out: {describe_failure(error)}")
            else:
                return found if found.ids else None
        return None

    async def judged(self, query: Query, texts: EncodedTexts, ranking: Ranking, tags: RankedList | None) -> GateDecision | None:
        """What the complexity gate makes of the text pass; None when it is off or there are no guides to spare."""
        plan, model = query.plan, self._learnt.gate
        if not plan.gate or model is None or not plan.guides or not ranking.lists:
            return None
        with query.stopwatch.stage("gate"):
            vector = texts.encoded.get(self._text_encoder)
            captions = None
            if plan.captions is not None and vector is not None:
                search = asyncio.to_thread(caption_method, self._store, plan.captions, vector[0], plan.filter)
                try:
                    captions = await within(search, plan.deadline)
                except TimeoutError:
                    query.log.left_out("captions as a sign for the gate: out of time")
                except Exception as error:  # noqa: BLE001  (as above)
                    query.log.failed(f"captions are no sign for the gate: {describe_failure(error)}")
            try:
                methods = methods_of(ranking.lists, captions=captions, tags=tags)
                return model.decide(methods, threshold=plan.gate_threshold)
            except Exception as error:  # noqa: BLE001  (as above)
                query.log.failed(f"the gate is left out: {describe_failure(error)}")
        return None

    async def settled(self, query_id: str | None = None) -> None:
        """Return when the query, or every answered one, is recorded; after ten seconds in any case."""
        recorder = self._learnt.recorder
        if recorder is not None and recorder.pending(query_id):
            await asyncio.to_thread(recorder.settle, query_id)

    async def remember(
        self,
        request: SearchOptions,
        query: Query,
        ranking: Ranking,
        response: SearchResponse,
        *,
        texts: EncodedTexts | None = None,
        kind: Kind = "words",
    ) -> None:
        """Record the query and let it teach; whatever goes wrong is a warning of an answer that stands.

        What takes longer than the query has left goes on by itself: its answer does not wait. With a recorder it waits for
        nothing but room in the recorder's queue.
        """
        memory, recorder = self._learnt.memory, self._learnt.recorder
        if memory is None:
            return
        vectors = {} if texts is None else {name: rows[0] for name, rows in texts.encoded.items()}
        if recorder is not None:
            parts = partial(self._searcher.inner_products, ranking.searches, [hit.image_id for hit in response.hits])
            trace = trace_of(request, query, ranking, response, kind=kind, parts={}, text_vectors=vectors)
            with query.stopwatch.stage("remember"):
                await _queued(recorder, memory, trace, parts, query)
            return
        with query.stopwatch.stage("remember"):
            hits = [hit.image_id for hit in response.hits]

            def keep() -> list[str]:
                parts = self._searcher.inner_products(ranking.searches, hits)
                trace = trace_of(request, query, ranking, response, kind=kind, parts=parts, text_vectors=vectors)
                return memory.keep(trace)

            until = time.monotonic() + max(remaining(query.plan.deadline), _REMEMBER_GRACE_S)
            try:
                for warning in await within(asyncio.to_thread(keep), until):
                    query.log.failed(warning)
            except TimeoutError:
                query.log.left_out("the record of this query, which comes late if at all: out of time")
            except Exception as error:  # noqa: BLE001  (as above)
                query.log.failed(f"this query was not recorded: {describe_failure(error)}")


async def _queued(
    recorder: Recorder,
    memory: QueryMemory,
    trace: Trace,
    parts: Callable[[], Mapping[tuple[str, str], NDArray[np.float32]]],
    query: Query,
) -> None:
    """Hand a record over, without the parts of its scores: those are read from the store when it is written."""
    until = time.monotonic() + min(_ROOM_S, remaining(query.plan.deadline))
    while not recorder.offer(trace.query_id, memory, lambda: replace(trace, parts=parts())):
        if time.monotonic() >= until:
            recorder.lose(trace.query_id)
            query.log.failed("this query was not recorded: the catalog does not keep up")
            return
        await asyncio.sleep(_LOOK_S)
