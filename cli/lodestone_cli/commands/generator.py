"""`lodestone generator …`: which guide engines are there, do they work, and in which order are they asked?"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone.errors import ModelUnavailableError, UnknownNameError
from lodestone_cli.options import HomeOption, Output, OutputOption, ProfileOption
from lodestone_cli.session import Session, printable

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.generators.trial import Trial
    from lodestone_schemas.api import EngineList

app = typer.Typer(help="Engines that imagine queries as guides.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(help="Name of an engine: lodestone generator list.", show_default=False)]


@app.command("list")
def list_(home: HomeOption = None, profile: ProfileOption = None, output: OutputOption = Output.HUMAN) -> None:
    """List the engines in the order in which they are asked, with what they cost and whether they fail."""
    with Session(home=home, profile=profile, output=output, purpose="lodestone generator") as session:
        client = session.service()
        engines = client.generators() if client else session.runtime.hub.status()
        session.emit(engines.model_dump(mode="json"), lambda console: _print(console, engines, running=client is not None))


@app.command()
def describe(name: _Name, home: HomeOption = None, profile: ProfileOption = None, output: OutputOption = Output.HUMAN) -> None:
    """Show one engine as it is configured. A key is never shown, only where it is read from."""
    with Session(home=home, profile=profile, output=output, purpose="lodestone generator") as session:
        from lodestone.generators.trial import describe_engine

        facts = describe_engine(_engine(session, name))

        def human(console: Console) -> None:
            for key, value in facts.items():
                console.print(printable(f"{key:18} {'' if value is None else value}"), markup=False)

        session.emit(facts, human)


@app.command("test")
def try_(name: _Name, home: HomeOption = None, profile: ProfileOption = None, output: OutputOption = Output.HUMAN) -> None:
    """Ask one engine for one picture, which may cost what it charges, and say how that went."""
    with Session(home=home, profile=profile, output=output, purpose="lodestone generator") as session:
        trial = asyncio.run(_tried(session, name))
        session.emit(asdict(trial), lambda console: _print_trial(console, trial))
        if trial.outcome in {"error", "timeout"}:
            raise ModelUnavailableError(f"generator {name!r}: {trial.message}", hint=trial.hint)


@app.command()
def enable(name: _Name, home: HomeOption = None, profile: ProfileOption = None, output: OutputOption = Output.HUMAN) -> None:
    """Ask this engine again. A running service follows at once."""
    _switch(name, home, profile, output, enabled=True)


@app.command()
def disable(name: _Name, home: HomeOption = None, profile: ProfileOption = None, output: OutputOption = Output.HUMAN) -> None:
    """Ask this engine no more. A running service follows at once."""
    _switch(name, home, profile, output, enabled=False)


@app.command()
def order(
    names: Annotated[list[str], typer.Argument(help="Engines, the first to be asked first.", show_default=False)],
    together: Annotated[bool, typer.Option("--together", help="Ask these at the same time, before all others.")] = False,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Set the order of engines: later ones fill what the earlier ones did not give. Engines not named come last."""
    with Session(home=home, profile=profile, output=output, purpose="lodestone generator") as session:
        known = session.runtime.engine_names()
        for name in names:
            if name not in known:
                raise UnknownNameError.among("generator", name, known)
        first = list(dict.fromkeys(names))
        places = dict.fromkeys(first, 0) if together else {name: place for place, name in enumerate(first)}
        rest = max(places.values()) + 1
        for name in known:
            session.runtime.catalog.set_engine(name, priority=places.get(name, rest))
        session.emit(
            {"order": {name: places.get(name, rest) for name in known}},
            lambda console: console.print(printable(f"asked first: {', '.join(first)}"), markup=False),
        )


def _switch(name: str, home: Any, profile: str | None, output: Output, *, enabled: bool) -> None:  # noqa: ANN401
    with Session(home=home, profile=profile, output=output, purpose="lodestone generator") as session:
        known = session.runtime.engine_names()
        if name not in known:
            raise UnknownNameError.among("generator", name, known)
        session.runtime.catalog.set_engine(name, enabled=enabled)
        said = "is asked again" if enabled else "is asked no more"
        session.emit(
            {"name": name, "enabled": enabled}, lambda console: console.print(printable(f"{name} {said}"), markup=False)
        )


def _engine(session: Session, name: str) -> Any:  # noqa: ANN401
    engines = session.runtime.hub.engines
    if name not in engines:
        raise UnknownNameError.among("generator", name, list(engines))
    return engines[name]


async def _tried(session: Session, name: str) -> Trial:
    from lodestone.generators.trial import try_engine

    return await try_engine(_engine(session, name))


def _print(console: Console, engines: EngineList, *, running: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("engine", "kind", "asked", "cost", "breaker", "guides", "failures", "last error"):
        table.add_column(heading)
    for one in engines.engines:
        asked = f"at {one.priority}" if one.enabled else "never"
        table.add_row(
            Text(one.name),
            one.kind,
            asked,
            f"{one.cost:g}",
            one.breaker if running else "",
            str(one.guides) if running else "",
            str(one.failures) if running else "",
            Text(printable(one.last_error or "")),
        )
    console.print(table)
    if engines.cache:
        used, limit = engines.cache.get("bytes", 0) / 2**20, engines.cache.get("limit_bytes", 0) / 2**20
        rate = f", hit rate {engines.cache.get('hit_rate', 0):.0%}" if running else ""
        console.print(
            f"guide cache: {engines.cache.get('entries', 0):.0f} guides, {used:.1f} of {limit:.0f} MB{rate}", style="dim"
        )


def _print_trial(console: Console, trial: Trial) -> None:
    if trial.outcome == "ok":
        size = f", {trial.width} x {trial.height} pixels" if trial.width else ""
        console.print(
            printable(f"{trial.engine} works: a guide in {trial.seconds:.1f} s{size}, cost {trial.cost:g}"), markup=False
        )
    elif trial.outcome == "empty":
        console.print(printable(f"{trial.engine} answers, and had no guide for the trial's words"), markup=False)
