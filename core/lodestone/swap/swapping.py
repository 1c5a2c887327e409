"""Swap of the model behind a space while searches continue.

start: the other version gets its own collection; what it lacks is computed (`backfill`), loaded, and compared with the active
one on recorded queries (`shadow`). promote: the definition is activated and the alias follows in one step; services warm up an
engine of the new version before they switch. rollback: the same in the other direction. Until `finish`, pictures that are
indexed enter both collections, so that neither direction has to wait. `cancel` ends a swap that was not promoted.

Every step is recorded before it is taken and can be repeated: a killed command is finished by the same command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from lodestone.catalog.records import RunState, SwapRecord, SwapState
from lodestone.catalog.work.swaps import unsettled_swaps
from lodestone.errors import ConfigurationError, InvalidRequestError, NotFoundError, StoreLockedError
from lodestone.home.space_activation import activate
from lodestone.home.space_definitions import SpaceDefinition, in_force, projection_of, target_of
from lodestone.home.space_standby import NEW, OLD, SwapVersions, has_versions
from lodestone.indexing.progress import Progress, silent
from lodestone.indexing.tasks import this_worker
from lodestone.swap.backfill import KIND, backfill, left_to_embed, left_to_load, parts_of
from lodestone.swap.overview import SHADOW, SwapReport
from lodestone.swap.shadow import compare_versions

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.embed.executors import ExecutorFactory
    from lodestone.indexing.sync.collections import SyncReport
    from lodestone.spaces.base import Projection

_CANCEL_WAITS_S: Final = 60.0
_STATUS: Final = "see `lodestone models swap --status`"

SyncCall = Callable[[str, Progress], "SyncReport | None"]
"""Function that synchronises the collections, here or in the service: (run id or swap id, progress) -> report."""

ShadowCall = Callable[[str], dict[str, Any]]
"""Function that compares both versions of a space, here or in the service: space -> report."""


class Swapper:
    """Takes the steps of swaps in one home; only one process at a time can do so.

    Args:
        runtime: The opened home.
        synchronise: Synchronises the collections; None to do it in this process, which then owns the store.
        shadow: Compares both versions; None to do it in this process.
        pool: Makes executors where the settings select Ray.
        leave_out: Whether pictures that cannot be read become failures, as in an index run, instead of delaying the swap.
        progress: Progress callback.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        synchronise: SyncCall | None = None,
        shadow: ShadowCall | None = None,
        pool: ExecutorFactory | None = None,
        leave_out: bool = False,
        progress: Progress = silent,
    ) -> None:
        self._runtime = runtime
        self._synchronise = synchronise
        self._shadow = shadow
        self._pool = pool
        self._leave_out = leave_out
        self._progress = progress

    def start(self, space: str, target: str) -> SwapReport:
        """Begin a swap, or continue it after an interruption; return when both versions were compared.

        The swap stays in BACKFILL while there are pictures that cannot be read.

        Raises:
            UnknownNameError: no such space, backbone or version.
            InvalidRequestError: the space is made of that already, or another swap of it is not settled.
            ModelUnavailableError: the model's package is not installed.
            StoreLockedError: another process works on a swap, or owns the store.
        """
        runtime = self._runtime
        wanted = target_of(runtime, space, target)
        with self._alone():
            swap = self._begun(wanted)
            report = self._fill(swap, projection_of(wanted, runtime))
            if report.waiting:
                return report
            return self.compared(report)

    def compared(self, report: SwapReport) -> SwapReport:
        """Send the recorded queries to both versions, and save the comparison with the swap."""
        swap = report.swap
        comparison = self._shadow(swap.space) if self._shadow else asyncio.run(compare_versions(self._runtime, swap.space))
        state = SwapState.SHADOW if swap.state is SwapState.BACKFILL else swap.state
        swap = self._runtime.catalog.update_swap(
            swap.swap_id, state=state, report={**swap.report, SHADOW: comparison}, error=""
        )
        return SwapReport(swap, report.embedded, report.computed, report.waiting, report.unreadable)

    def compare(self, space: str | None = None) -> SwapReport:
        """Compare once more, with the queries that were recorded since.

        Raises:
            NotFoundError: there is no unsettled swap.
            InvalidRequestError: its collection is not complete.
        """
        with self._alone():
            swap = self._only(space, SwapState.SHADOW, SwapState.PROMOTED, instead="it can be compared")
            return self.compared(SwapReport(swap))

    def promote(self, space: str | None = None) -> SwapReport:
        """Activate the other version, after adding the pictures that were indexed since.

        Raises:
            NotFoundError: there is no unsettled swap.
            InvalidRequestError: the swap is not complete, is active already, or the space was changed by other means since.
        """
        with self._alone():
            swap = self._only(space, SwapState.SHADOW, instead="it can be promoted")
            sides = SwapVersions.of(swap)
            self._check_unchanged(swap, sides)
            report = self._fill(swap, self._made(sides.new, sides.new_collection))
            if report.waiting:
                raise InvalidRequestError(
                    f"the swap of {swap.space!r} is not complete: {report.waiting:,} pictures are not in "
                    f"{swap.new_collection!r}"
                    f"{report.why()}",
                    hint=f"lodestone index, then lodestone models swap --space {swap.space} --to {swap.target}",
                    waiting=report.waiting,
                )
            self._change_over(swap, sides.old, sides.new, sides.new_collection)
            done = self._runtime.catalog.update_swap(swap.swap_id, state=SwapState.PROMOTED, error="")
            return SwapReport(done, report.embedded, report.computed)

    def rollback(self, space: str | None = None) -> SwapReport:
        """Activate the former version again.

        Raises:
            NotFoundError: there is no unsettled swap.
            InvalidRequestError: the swap was not promoted.
            ModelUnavailableError: the former model is not installed any more.
        """
        with self._alone():
            swap = self._only(space, SwapState.PROMOTED, instead="it can be rolled back")
            sides = SwapVersions.of(swap)
            report = self._fill(swap, self._made(sides.old, sides.old_collection))
            if report.waiting:
                raise InvalidRequestError(
                    f"{report.waiting:,} pictures are not in {swap.old_collection!r}, the former version of {swap.space!r}"
                    f"{report.why()}",
                    hint="lodestone index, then the same command again",
                    waiting=report.waiting,
                )
            self._change_over(swap, sides.new, sides.old, sides.old_collection)
            done = self._runtime.catalog.update_swap(swap.swap_id, state=SwapState.ROLLED_BACK, error="")
            return SwapReport(done, report.embedded, report.computed)

    def cancel(self, space: str | None = None) -> SwapReport:
        """End a swap that was not promoted: stop the process that works on it, and drop its collection.

        The outputs of its backbone stay stored, so the same swap finds them when it is begun again.

        Raises:
            NotFoundError: there is no unsettled swap.
            InvalidRequestError: the swap was promoted.
        """
        catalog = self._runtime.catalog
        swap = self._only(space, SwapState.BACKFILL, SwapState.SHADOW, instead="it can be cancelled")
        for run in catalog.runs(100, state=RunState.RUNNING):
            if run.kind == KIND:
                catalog.request_cancel(run.run_id)
        with self._alone(patience=_CANCEL_WAITS_S):
            if has_versions(swap):
                self._restore(swap, SwapVersions.of(swap).old)  # a promotion may have been interrupted
            done = catalog.update_swap(swap.swap_id, state=SwapState.CANCELLED, error="")
            self._sync(swap)
            return SwapReport(done)

    def finish(self, space: str | None = None) -> SwapReport:
        """Settle a promoted swap for good: the former version's collection is dropped and gets no more pictures.

        Raises:
            NotFoundError: there is no unsettled swap.
            InvalidRequestError: the swap was not promoted.
        """
        with self._alone():
            swap = self._only(space, SwapState.PROMOTED, instead="it can be finished")
            done = self._runtime.catalog.update_swap(swap.swap_id, state=SwapState.FINISHED, error="")
            self._sync(swap)
            return SwapReport(done)

    # -- steps ---------------------------------------------------------------------------------------------------------------

    def _begun(self, wanted: SpaceDefinition) -> SwapRecord:
        """Return the swap's row: the interrupted one, or a new one."""
        runtime, space = self._runtime, wanted.space
        collection = projection_of(wanted, runtime).collection
        existing = next(iter(unsettled_swaps(runtime.catalog, space)), None)
        if existing is not None and existing.state is SwapState.PROMOTED:
            raise InvalidRequestError(
                f"the swap of {space!r} to {existing.target!r} is in force, and can still be rolled back",
                hint=f"lodestone models swap --space {space} --finish, or --rollback, first",
            )
        if existing is not None and (existing.target, existing.new_collection) != (wanted.source, collection):
            changed = "" if existing.target != wanted.source else ", whose model is another version since"
            raise InvalidRequestError(
                f"a swap of {space!r} to {existing.target!r} is under way{changed}",
                hint=f"lodestone models swap --space {space} --cancel first, or go on with --to {existing.target}",
            )
        if existing is not None and has_versions(existing):
            return existing
        current = in_force(runtime, space)
        old = projection_of(current, runtime).collection
        if collection == old:
            raise InvalidRequestError(f"the space {space!r} is made of {wanted.source!r} already", hint="lodestone models list")
        swap = existing or runtime.catalog.add_swap(space, wanted.source, old_collection=old, new_collection=collection)
        return runtime.catalog.update_swap(swap.swap_id, report={OLD: current.as_dict(), NEW: wanted.as_dict()})

    def _fill(self, swap: SwapRecord, projection: Projection) -> SwapReport:
        """Compute and load what a collection lacks."""
        catalog = self._runtime.catalog
        try:
            filled = backfill(self._runtime, projection, pool=self._pool, leave_out=self._leave_out, progress=self._progress)
            self._sync(swap)
        except BaseException as error:
            catalog.update_swap(swap.swap_id, error=f"{type(error).__name__}: {error}")
            raise
        parts = parts_of(self._runtime, projection)
        to_embed, to_load = left_to_embed(catalog, parts), left_to_load(catalog, parts, projection.collection)
        counts = filled.added_to(swap.counts)
        swap = catalog.update_swap(swap.swap_id, counts=counts, error="")
        unreadable = tuple((failure.uri, failure.code) for failure in filled.unreadable[:10])
        return SwapReport(swap, filled.embedded, filled.computed, to_embed + to_load, unreadable)

    def _change_over(self, swap: SwapRecord, former: SpaceDefinition, wanted: SpaceDefinition, collection: str) -> None:
        """Activate a version: the definition first, then by the sync the alias. If that fails, the former one stays active."""
        activate(self._runtime, wanted, swap.swap_id)
        try:
            self._sync(swap)
        except BaseException as error:
            if self._promoted(swap.space) != collection:
                activate(self._runtime, former, swap.swap_id)
            self._runtime.catalog.update_swap(swap.swap_id, error=f"{type(error).__name__}: {error}")
            raise
        if self._promoted(swap.space) != collection:
            activate(self._runtime, former, swap.swap_id)
            raise InvalidRequestError(
                f"the space {swap.space!r} was changed by another process meanwhile", hint=_STATUS, collection=collection
            )

    def _restore(self, swap: SwapRecord, former: SpaceDefinition) -> None:
        if in_force(self._runtime, swap.space).source != former.source:
            activate(self._runtime, former, swap.swap_id)

    def _promoted(self, space: str) -> str | None:
        return self._runtime.promoted().get(space)

    def _sync(self, swap: SwapRecord) -> None:
        if self._synchronise is not None:
            self._synchronise(swap.swap_id, self._progress)
            return
        from lodestone.indexing.sync.collections import sync

        sync(self._runtime, progress=self._progress)

    def _only(self, space: str | None, *states: SwapState, instead: str) -> SwapRecord:
        """Return the one unsettled swap.

        Raises:
            NotFoundError: there is none.
            InvalidRequestError: there are several, or it is in another state.
        """
        swaps = unsettled_swaps(self._runtime.catalog, space)
        if not swaps:
            which = "" if space is None else f" of the space {space!r}"
            raise NotFoundError(f"no model swap{which} is going on", hint="lodestone models swap --space SPACE --to MODEL")
        if len(swaps) > 1:
            spaces = ", ".join(sorted(swap.space for swap in swaps))
            raise InvalidRequestError(f"swaps of several spaces are going on: {spaces}", hint="name one: --space SPACE")
        swap = swaps[0]
        if swap.state not in states:
            raise InvalidRequestError(
                f"the swap of {swap.space!r} to {swap.target!r} is in the state {swap.state.value!r}; {instead} "
                f"in {' or '.join(repr(state.value) for state in states)}",
                hint=_NEXT[swap.state].format(space=swap.space, target=swap.target),
            )
        return swap

    def _check_unchanged(self, swap: SwapRecord, sides: SwapVersions) -> None:
        current = in_force(self._runtime, swap.space)
        if current.source not in {sides.old.source, sides.new.source}:
            raise InvalidRequestError(
                f"the space {swap.space!r} is made of {current.source!r} since, not of {sides.old.source!r} as when the swap "
                "began",
                hint=f"lodestone models swap --space {swap.space} --cancel, and begin it again",
            )

    def _made(self, definition: SpaceDefinition, collection: str) -> Projection:
        projection = projection_of(definition, self._runtime)
        if projection.collection != collection:
            raise ConfigurationError(
                f"the model {definition.source!r} of the space {definition.space!r} is another version than at first",
                hint=f"install the version that made {collection!r} again, or cancel or finish the swap",
            )
        return projection

    @contextmanager
    def _alone(self, *, patience: float = 0.0) -> Iterator[None]:
        """Lock the home's swaps against other processes, also on other machines; the lock is released when its process ends."""
        from filelock import FileLock, Timeout

        runtime = self._runtime
        runtime.home.prepare()
        with ExitStack() as stack:
            try:
                stack.enter_context(FileLock(runtime.home.path / ".swap.lock", timeout=patience))
            except Timeout as error:
                raise _busy("") from error
            other = stack.enter_context(runtime.catalog.held("model swaps", worker=this_worker()))
            if other is not None:
                raise _busy(f" ({other})" if other else "")
            yield


def _busy(who: str) -> StoreLockedError:
    return StoreLockedError(
        f"another process{who} works on a model swap of this home",
        hint="wait for it, or stop it: lodestone models swap --cancel; what it has computed is kept",
    )


_NEXT: Final = {
    SwapState.BACKFILL: "finish it first: lodestone models swap --space {space} --to {target}",
    SwapState.SHADOW: "lodestone models swap --space {space} --promote, or --cancel",
    SwapState.PROMOTED: "lodestone models swap --space {space} --finish, or --rollback",
}
