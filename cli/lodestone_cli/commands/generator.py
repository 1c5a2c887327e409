"""Commands `lodestone generator …`: list, describe, test, switch and order the guide engines."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone.errors import ModelUnavailableError, StoreLockedError, UnknownNameError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.option_groups import Commands
from lodestone_cli.progress import shown_wait
from lodestone_cli.terminal.console import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from lodestone.generators.base import GuideRequest
    from lodestone.generators.engine_call import Engine
    from lodestone.generators.trial import Trial
    from lodestone_schemas.api import EngineList

app = Commands(help="Engines that imagine queries as guides.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(help="Name of an engine: lodestone generator list.")]
_OF_COLLECTION = {"exemplar", "prior"}  # kinds that make guides of the collection and its vectors, not of words alone
_LOOKED_AT = 1_000  # pictures whose captions are looked through for one to try


@app.command("list")
def list_(at: HomeOptions) -> None:
    """List the engines in the order in which they are asked, with what they cost and whether they fail."""
    with CommandContext(at, purpose="lodestone generator", away=True) as context:
        engines = context.api.generators()
        # The API does not say which engines a query asks that names none.
        usual = _asked_by_default(context) if context.remote is None else tuple(engine.name for engine in engines.engines)
        running = context.is_served
        context.emit(engines.model_dump(mode="json"), lambda console: _print(console, engines, usual, running=running))


@app.command()
def describe(at: HomeOptions, name: _Name) -> None:
    """Show one engine as it is configured. A key is never shown, only where it is read from."""
    with CommandContext(at, purpose="lodestone generator") as context:
        facts = _described(context, name)

        def human(console: Console) -> None:
            for key, value in facts.items():
                if value not in (None, "", {}):
                    console.print(printable(f"{key:18}{_plain(value)}"), markup=False)

        context.emit(facts, human)


@app.command("test")
def try_(
    at: HomeOptions,
    name: _Name,
    words: Annotated[str | None, typer.Argument(help="What to imagine; default: a bicycle.")] = None,
) -> None:
    """Ask one engine for one picture, which may cost what it charges, and say how that went."""
    from lodestone.query.asking.resolve import normalise_query

    words = None if words is None else normalise_query(words)
    with CommandContext(at, purpose="lodestone generator test") as context:
        with shown_wait(context, f"trying {printable(name)}"):
            trial = asyncio.run(_tried(context, name, words))
        if trial.outcome in {"error", "timeout"}:
            hint = trial.hint or f"lodestone generator describe {name}"
            raise ModelUnavailableError(f"generator {name!r}: {trial.message}", hint=hint, trial=asdict(trial))
        context.emit(
            asdict(trial), lambda console: _print_trial(console, trial, of_collection=_is_of_collection(context, name))
        )


@app.command()
def enable(at: HomeOptions, name: _Name) -> None:
    """Ask this engine again. A running service follows within a second."""
    _switch(at, name, enabled=True)


@app.command()
def disable(at: HomeOptions, name: _Name) -> None:
    """Ask this engine no more. A running service follows within a second."""
    _switch(at, name, enabled=False)


@app.command()
def order(
    at: HomeOptions,
    names: Annotated[list[str], typer.Argument(help="Engines, the first to be asked first.")],
    together: Annotated[bool, typer.Option("--together", help="Ask these at the same time, before all others.")] = False,
) -> None:
    """Set the order of engines: later ones fill what the earlier ones did not give. Engines not named come last."""
    with CommandContext(at, purpose="lodestone generator", writes=True) as context:
        known = context.runtime.engine_names()
        for name in names:
            if name not in known:
                raise UnknownNameError.among("generator", name, known)
        first = list(dict.fromkeys(names))
        places = dict.fromkeys(first, 0) if together else {name: place for place, name in enumerate(first)}
        rest = max(places.values()) + 1
        for name in known:
            context.runtime.catalog.set_engine(name, priority=places.get(name, rest))
        order_now = {name: places.get(name, rest) for name in sorted(known, key=lambda name: places.get(name, rest))}
        context.emit({"order": order_now}, lambda console: console.print(printable(_in_turn(order_now)), markup=False))


def _switch(at: HomeOptions, name: str, *, enabled: bool) -> None:
    with CommandContext(at, purpose="lodestone generator", writes=True) as context:
        known = context.runtime.engine_names()
        if name not in known:
            raise UnknownNameError.among("generator", name, known)
        context.runtime.catalog.set_engine(name, enabled=enabled)
        said = f"{name} is asked again" if enabled else f"{name} is asked no more"
        asked = _asked_by_default(context)
        if enabled and name not in asked:
            said = f"{name} can be asked again: by searches with --generator {name}, or when query.generators names it"
        elif not any(_enabled(context, one) for one in asked):
            said += "; no engine is left: queries are answered by their words alone"
        context.emit({"name": name, "enabled": enabled}, lambda console: console.print(printable(said), markup=False))


def _asked_by_default(context: CommandContext) -> tuple[str, ...]:
    """Return the engines that a query asks when it names none."""
    named = context.runtime.settings.query.generators
    return tuple(context.runtime.profile.generators if named is None else named)


def _enabled(context: CommandContext, name: str) -> bool:
    """Return what `Hub.enabled` would, without making engines: their settings may be invalid."""
    runtime = context.runtime
    state = runtime.catalog.engine_states().get(name)
    configured = {**runtime.profile.engines, **runtime.settings.generators}.get(name)
    return (configured is None or configured.enabled) if state is None or state.enabled is None else state.enabled


def _engine(context: CommandContext, name: str) -> Engine:
    engines = context.runtime.hub.engines
    if name not in engines:
        raise UnknownNameError.among("generator", name, list(engines))
    return engines[name]


def _described(context: CommandContext, name: str) -> dict[str, Any]:
    import httpx

    from lodestone.generators.trial import describe_engine
    from lodestone.remote.http_guard import shown

    facts = describe_engine(_engine(context, name))
    hub = context.runtime.hub
    facts |= {"enabled": hub.enabled(name), "priority": hub.priority(name)}  # as switched and ordered, not as configured
    if facts.get("url"):
        try:
            facts["url"] = shown(httpx.URL(facts["url"]))  # an address may hold a password
        except httpx.InvalidURL:
            facts["url"] = "not a usable address"
    return facts


async def _tried(context: CommandContext, name: str, words: str | None) -> Trial:
    from lodestone.generators.base import GuideRequest
    from lodestone.generators.trial import try_engine

    engine = _engine(context, name)
    try:
        request = None
        if _is_of_collection(context, name):
            request = await asyncio.to_thread(_of_collection, context, engine, words)
        elif words is not None:
            request = GuideRequest(words, words, 1, size=engine.settings.size)
        return await try_engine(engine, request)
    finally:
        await context.runtime.close_hub()


def _is_of_collection(context: CommandContext, name: str) -> bool:
    return _engine(context, name).settings.kind in _OF_COLLECTION


def _of_collection(context: CommandContext, engine: Engine, words: str | None) -> GuideRequest:
    """Return the request that a search would send: the words' vectors and the collections with guides. It blocks."""
    from lodestone.generators.base import GuideRequest

    context.require_home()
    if context.service() is not None:
        raise StoreLockedError(
            f"{engine.name} makes guides of the collection, which the running service holds",
            hint=f'ask the service: lodestone search "WORDS" --generator {engine.name} --no-gate',
        )
    runtime = context.runtime
    words = words or _some_caption(context) or "a red bicycle leaning against a white wall"
    vectors = {}
    for name, encoder in runtime.text_encoders(runtime.serving_projections()).items():
        encoder.warm_up(threads=runtime.settings.models.threads)
        vectors[name] = encoder.encode([words])[0]
    wanted = {*runtime.profile.spaces, "captions", "tags"}
    collections = {name: collection for name, collection in runtime.store.aliases().items() if name in wanted}
    return GuideRequest(words, words, 1, size=engine.settings.size, text_vectors=vectors, collections=collections)


def _some_caption(context: CommandContext) -> str | None:
    from itertools import islice

    catalog = context.runtime.catalog
    for root in catalog.roots(None):
        captions = catalog.captions([image.image_id for image in islice(catalog.images_of_root(root.root_id), _LOOKED_AT)])
        for found in captions.values():
            return found[0].text
    return None


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _in_turn(order: dict[str, int]) -> str:
    """Return the order in words: `asked: a, then b and c together`."""
    tiers: dict[int, list[str]] = {}
    for name, priority in order.items():
        tiers.setdefault(priority, []).append(name)
    groups = [f"{' and '.join(names)}{' together' if len(names) > 1 else ''}" for _, names in sorted(tiers.items())]
    return f"asked: {', then '.join(groups)}"


def _print(console: Console, engines: EngineList, usual: Sequence[str], *, running: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    if not engines.engines:
        console.print("this profile has no guide engine; [generators.NAME] in lodestone.toml adds one")
        return
    tell_cost = any(one.cost for one in engines.engines)
    table = Table(box=None, pad_edge=False)
    table.add_column("engine", overflow="fold")
    table.add_column("kind", no_wrap=True)
    table.add_column("asked", no_wrap=True)
    if tell_cost:
        table.add_column("cost", no_wrap=True, justify="right")
    if running:
        table.add_column("breaker", no_wrap=True)
        table.add_column("guides", no_wrap=True, justify="right")
        table.add_column("failures", no_wrap=True, justify="right")
    tiers = sorted({one.priority for one in engines.engines if one.enabled and one.name in usual})
    for one in engines.engines:
        asked = _ordinal(tiers.index(one.priority)) if one.enabled and one.name in usual else "by name"
        asked = asked if one.enabled else "disabled"
        cells: list[str | Text] = [Text(printable(one.name)), one.kind, asked]
        if tell_cost:
            cells.append(f"{one.cost:g}")
        if running:
            cells += [one.breaker.replace("_", " "), f"{one.guides:,}", f"{one.failures:,}"]
        table.add_row(*cells)
    print_table(console, table)
    _print_remarks(console, engines, usual, running=running)


def _print_remarks(console: Console, engines: EngineList, usual: Sequence[str], *, running: bool) -> None:
    for one in engines.engines:
        if one.last_error:
            console.print(printable(f"{one.name} failed last with: {one.last_error}"), style="yellow", markup=False)
    if any(one.enabled and one.name not in usual for one in engines.engines):
        console.print("by name: only searches with --generator NAME ask it; query.generators lists the usual ones", style="dim")
    if engines.cache.get("entries"):
        used, limit = engines.cache.get("bytes", 0) / 2**20, engines.cache.get("limit_bytes", 0) / 2**20
        rate = f", hit rate {engines.cache.get('hit_rate', 0):.0%}" if running else ""
        console.print(f"guide cache: {engines.cache['entries']:,.0f} guides, {used:.1f} of {limit:.0f} MB{rate}", style="dim")


def _ordinal(place: int) -> str:
    return ("first", "second", "third")[place] if place < 3 else f"{place + 1}th"


def _print_trial(console: Console, trial: Trial, *, of_collection: bool) -> None:
    if trial.outcome == "ok":
        size = f", {trial.width} x {trial.height} pixels" if trial.width else ""
        cost = f", cost {trial.cost:g}" if trial.cost else ""
        said = f"{trial.engine} works: a guide in {trial.seconds:.1f} s{size}{cost}"
    elif of_collection:
        said = f"{trial.engine} answers, and has no guide: no caption or tag of the collection says these words"
    else:
        said = f"{trial.engine} answers, and had no guide for these words"
    console.print(printable(said), markup=False)
