"""Command `lodestone doctor`: checks of packages, models, home, store and service, each with a remedy."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import typer

from lodestone.errors import LodestoneError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.progress import shown_conversions, shown_wait

if TYPE_CHECKING:
    from rich.console import Console

_LOW_SPACE = 1 << 30  # bytes
_PACKAGES = ("torch", "onnxruntime", "ray", "qdrant-client", "qdrant-edge-py", "pyarrow")


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """Result of one check: its name, whether it passed, what was found, and how to repair it."""

    name: str
    ok: bool
    finding: str
    hint: str = ""


def doctor(at: HomeOptions) -> None:
    """Look at packages, models, the home, the store and the service. Exit code 1 when something is wrong."""
    with CommandContext(at, purpose="lodestone doctor") as context:
        checks = [_python(), *(_package(name) for name in _PACKAGES)]
        with shown_wait(context, "checking"), shown_conversions(context):
            checks += [_try("home", lambda: _home(context)), _try("disk", lambda: _disk(context))]
            checks += [_try("text encoder", lambda: _text_encoder(context)), _try("image models", lambda: _backbones(context))]
            checks.append(_model_cache(context))
            checks += [_try("catalog", lambda: _catalog(context)), _try("vector store", lambda: _store(context))]
            checks += [_try("service", lambda: _service(context)), *_consistency(context)]

        def human(console: Console) -> None:
            from rich.markup import escape

            for check in checks:
                mark = "[green]ok[/]   " if check.ok else "[red]wrong[/]"
                console.print(f"{mark} {check.name:<14} {escape(printable(check.finding))}")
                if check.hint:
                    console.print(f"      {'':<14} [yellow]{escape(printable(check.hint))}[/]")
            console.print()
            for line in verdict(checks, next_step=_next_step(context)):
                console.print(escape(printable(line)))

        context.emit([asdict(check) for check in checks], human)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def verdict(checks: Sequence[DoctorCheck], *, next_step: str) -> list[str]:
    """Return the lines that end the report: whether something is wrong, and what to do next.

    Args:
        checks: All checks, in their order.
        next_step: What to do where nothing is wrong.
    """
    wrong = [check for check in checks if not check.ok]
    if not wrong:
        return ["Nothing is wrong.", f"Next: {next_step}"]
    names = ", ".join(dict.fromkeys(check.name for check in wrong))
    first = next((check.hint for check in wrong if check.hint), "")
    lines = [f"{len(wrong)} of {len(checks)} checks found something wrong: {names}."]
    return [*lines, f"Next: {first}; then lodestone doctor again"] if first else lines


def _next_step(context: CommandContext) -> str:
    """Return the command that a home without faults is ready for: index where it is empty, search where it has pictures."""
    from lodestone.catalog.records import ImageState

    try:
        empty = not _has_home(context) or context.runtime.catalog.count_images(state=ImageState.ACTIVE) == 0
    except LodestoneError:  # a check has told it
        empty = False
    home = f" --home {shlex.quote(str(context.loaded.settings.home))}" if context.loaded.sources.get("home") == "flag" else ""
    return f"lodestone index{home} ~/Pictures" if empty else f'lodestone search{home} "two people on a beach"'


def _try(name: str, look: Callable[[], str]) -> DoctorCheck:
    """Return what `look` found as a passed check, or the error that it raised as a failed one."""
    try:
        return DoctorCheck(name, True, look())
    except LodestoneError as error:
        return DoctorCheck(name, False, f"{error.message} [{error.code}]", error.hint)


def _python() -> DoctorCheck:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return DoctorCheck("python", sys.version_info >= (3, 11), found)


def _package(name: str) -> DoctorCheck:
    try:
        return DoctorCheck(name, True, version(name))
    except PackageNotFoundError:
        return DoctorCheck(name, False, "not installed", f"pip install {name}")


def _home(context: CommandContext) -> str:
    from lodestone.config.home import home_of

    home = home_of(context.loaded.settings)
    if not home.exists():
        return f"{home.path} (nothing indexed yet)"
    home.check()
    return str(home.path)


def _has_home(context: CommandContext) -> bool:
    from lodestone.config.home import home_of

    return home_of(context.loaded.settings).exists()


def _disk(context: CommandContext) -> str:
    from lodestone.errors import OutOfSpaceError

    place = context.loaded.settings.home
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < _LOW_SPACE:
        raise OutOfSpaceError(f"{free >> 20} MB free", hint="free some space before indexing")
    return f"{free >> 30} GB free"


def _text_encoder(context: CommandContext) -> str:
    encoder = context.runtime.text_encoder
    encoder.warm_up()
    dim = encoder.encode(["a red bicycle"]).shape[1]
    return f"{encoder.name} {encoder.version}, {dim} dimensions"


def _backbones(context: CommandContext) -> str:
    found = []
    for backbone in context.runtime.backbones():
        backbone.warm_up()
        found.append(f"{backbone.name} {backbone.version}")
    return ", ".join(found)


def _model_cache(context: CommandContext) -> DoctorCheck:
    cache = context.loaded.settings.models.cache
    use = "models converted for all homes" if cache.is_dir() else "no model is converted yet"
    return DoctorCheck("model cache", True, f"{cache} ({use})")


def _catalog(context: CommandContext) -> str:
    if not _has_home(context):
        return "none yet"
    context.runtime.catalog.ping()
    return context.runtime.catalog.url


def _store(context: CommandContext) -> str:
    if not _has_home(context):
        return "none yet"
    if context.loaded.settings.store.kind == "edge" and context.service():
        return "owned by the running service"
    store = context.runtime.store
    store.ping()
    facts = store.capabilities()
    return f"{facts.engine} {facts.version}, {len(store.collections())} collections"


def _consistency(context: CommandContext) -> list[DoctorCheck]:
    """Compare files, catalog, stored embeddings and collections with each other."""
    from lodestone.indexing.sync.repair import examine_home

    remedies = {
        "sync": "lodestone index on any folder, or lodestone serve: it is loaded again, no picture is read",
        "resume": "lodestone index --resume, or lodestone serve",
        "index": "lodestone index on the folder, or lodestone serve",
        "none": "connect the disk, or lodestone directory remove",
    }
    try:
        if not _has_home(context):
            return []
        served = context.loaded.settings.store.kind == "edge" and context.service() is not None
        found = examine_home(context.runtime, store=not served)
    except LodestoneError as error:
        return [DoctorCheck("consistency", False, f"{error.message} [{error.code}]", error.hint)]
    if found.ok:
        left_out = " (the service looks after its store)" if served else ""
        return [DoctorCheck("consistency", True, f"files, catalog and embeddings fit{left_out}" if served else "all fits")]
    return [DoctorCheck("consistency", False, f"{one.part}: {one.what}", remedies[one.remedy]) for one in found.findings]


def _service(context: CommandContext) -> str:
    client = context.service()
    return client.address.url if client else "not running (lodestone serve)"
