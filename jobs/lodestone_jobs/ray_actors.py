"""Embedding actors on Ray, in a local Ray, on a cluster, or on one that this process is only a client of (`ray://`).

Each actor has one call of `take` under way, which returns when it has something to tell. So the driver waits for as many
results as there are actors, however many slices are in flight, and many receipts come in one answer.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lodestone.indexing.tasks import EmbedSettings, SliceTask
from lodestone_jobs.actor_pool import Death, News, Surroundings
from lodestone_jobs.embed_actor import EmbedActor, Event, Hello, PipelineFactory, load_pipeline
from lodestone_jobs.nodes import working_nodes
from lodestone_jobs.rooms import Room, Share, room_of

_TAKE_SECONDS: Final = 20.0  # longest time that an actor without news holds a call
_THREADS: Final = 4  # of an actor's calls: one that takes, and some that give or say hello
_NODE_DIED: Final = "node has died"  # in Ray's message about an actor that died with its node
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    handle: Any
    pending: Any  # result that is waited for
    greeted: bool = False
    doubted: bool = False  # its last answer was lost on the way


class RayActors:
    """Starts and feeds actors, as an `ActorHost`. Its methods belong to one thread.

    Args:
        settings: Settings of the workers.
        share: Resources of an actor.
        load: Makes the pipeline of an actor.
    """

    def __init__(self, settings: EmbedSettings, share: Share, load: PipelineFactory = load_pipeline) -> None:
        self._settings = settings
        self._share = share
        self._load = load
        self._actors: dict[int, _Running] = {}
        self._started = 0

    def start(self) -> int:
        """Ask Ray for one more actor. Ray never restarts it: the pool decides about that."""
        import ray

        # spread, so that a node that is lost costs few actors
        options: dict[str, Any] = {"max_restarts": 0, "max_concurrency": _THREADS, "scheduling_strategy": "SPREAD"}
        actor: Any = ray.remote(EmbedActor)
        handle = actor.options(**self._share.options(), **options).remote(self._settings, self._load)
        self._started += 1
        self._actors[self._started] = _Running(handle, handle.hello.remote())
        return self._started

    def give(self, actor: int, tasks: Sequence[SliceTask]) -> None:
        """Send tasks; an actor that is dead by now says so in its news."""
        self._actors[actor].handle.give.remote(pickle.dumps(list(tasks)))

    def stop(self, actor: int) -> None:
        """Kill an actor: what it has finished is on disk, and its current work is not wanted."""
        import ray

        ray.kill(self._actors.pop(actor).handle)

    def news(self, seconds: float) -> list[tuple[int, News]]:
        """Return what actors answered. An actor that died is forgotten."""
        import ray

        waiting = {running.pending: number for number, running in self._actors.items()}
        if not waiting:
            time.sleep(seconds)
            return []
        pending = list(waiting)
        if not ray.wait(pending, timeout=seconds)[0]:
            return []
        done, _ = ray.wait(pending, num_returns=len(pending), timeout=0)
        return [(waiting[result], news) for result in done for news in self._heard(waiting[result], result)]

    def look(self) -> Surroundings:
        """Return the room on the live nodes that are not about to leave."""
        nodes = working_nodes()
        leaving = draining()
        rooms = [Room.of(node) for node in nodes if node["NodeID"] not in leaving]
        summary = (
            f"one asks for {self._share}; the cluster's {len(rooms)} nodes have {sum(room.cpus for room in rooms):g} CPUs "
            f"and {sum(room.gpus for room in rooms):g} GPUs"
        )
        return Surroundings(room_of(rooms, self._share), leaving, summary)

    def _heard(self, number: int, result: Any) -> list[News]:  # noqa: ANN401 - a reference of Ray
        import ray

        running = self._actors[number]
        try:
            answer = ray.get(result)
        except ray.exceptions.ActorUnavailableError as error:
            return self._doubt(number, running, str(error))
        except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError, ray.exceptions.WorkerCrashedError) as error:
            del self._actors[number]
            lost = _NODE_DIED in str(error) or (isinstance(error, ray.exceptions.RayActorError) and error.preempted)
            return [Death(last_line(error), node_lost=lost)]
        if running.doubted:
            return self._doubt(number, running, "an answer was lost on the way")
        running.pending = running.handle.take.remote(_TAKE_SECONDS)
        if isinstance(answer, Hello):
            running.greeted = True
            return [answer]
        events: list[Event] = pickle.loads(answer)  # noqa: S301 - our actor's own
        return [events]

    def _doubt(self, number: int, running: _Running, reason: str) -> list[News]:
        """Find out what happened to an actor that cannot be reached: if it is dead, the next answer says of what.

        If it lives, its answer is lost, and with it perhaps receipts: it is stopped, and its slices are done again. Files that
        it has written are adopted.
        """
        import ray

        if not running.doubted:
            running.doubted = True
            running.pending = running.handle.hello.remote()
            return []
        ray.kill(running.handle)
        del self._actors[number]
        return [Death(reason, node_lost=True)]


def draining() -> frozenset[str]:
    """Return the ids of nodes that will leave the cluster soon; none where Ray does not tell, as through its client."""
    from ray._private.state import state

    try:
        return frozenset(state.get_draining_nodes())
    except Exception as error:  # noqa: BLE001 - not an API that Ray promises: without it, such a node is a lost one later
        _log.debug("Ray does not tell which nodes leave: %s", error)
        return frozenset()


def last_line(error: BaseException) -> str:
    """Return the last line of an error's message, or its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
