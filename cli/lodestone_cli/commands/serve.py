"""Commands `lodestone serve …`: run the HTTP service here, or configure and deploy it on a Ray cluster."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import HomeOption, Output, ProfileOption
from lodestone_cli.progress import shown_wait

if TYPE_CHECKING:
    from lodestone.config.settings import Settings


class ServeEngine(StrEnum):
    """Values of `serve --engine`, as of the setting `serve.engine`."""

    AUTO = "auto"
    PROCESS = "process"
    RAY = "ray"


app = Commands(help="Run the search service, here or on a Ray cluster.", invoke_without_command=True)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="Settings (TOML), in place of the home's lodestone.toml.")]


@app.callback()
def serve(
    typer_context: typer.Context,
    host: Annotated[str | None, typer.Option("--host", help="Address to bind (loopback).")] = None,
    port: Annotated[int | None, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 picks a free one.")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Settings (TOML), or what `serve build` wrote (YAML).")
    ] = None,
    engine: Annotated[
        ServeEngine | None,
        typer.Option("--engine", help="In one process, or on a Ray of its own; auto: as the graph needs.", show_default=False),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", min=0, max=64, help="Processes that answer searches; 0: one for each core.", show_default=False
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the search page in a browser.")] = False,
    home: HomeOption = None,
    profile: ProfileOption = None,
) -> None:
    """Run the search service for this home. `lodestone search` and `index` use it while it runs."""
    if typer_context.invoked_subcommand is not None:
        return
    given, options = _configured(config)
    bound = {
        name: value
        for name, value in (("host", host), ("port", port), ("engine", engine), ("processes", processes))
        if value is not None
    }
    sections = {name: value for name, value in given.items() if name not in {"home", "profile"}}
    flags = {**sections, "serve": {**given.get("serve", {}), **bound}}
    with CommandContext(
        HomeOptions(home=home or given.get("home"), profile=profile or given.get("profile")), flags=flags
    ) as context:
        from rich.markup import escape

        from lodestone.config.home import Home
        from lodestone.home.unlocking import withdraw
        from lodestone_serve.hosting.run import serve_forever

        messages = context.messages
        messages.print("starting …")

        def ready(url: str) -> None:
            served = escape(str(context.loaded.settings.home))
            messages.print(f"search page: [bold]{url}[/]  (API: {url}/docs; home: {served}; Ctrl-C stops)")
            if open_page:
                from lodestone_cli.terminal.desktop import open_in_browser

                if not open_in_browser(_unlocking_page(context.loaded.settings, url)):
                    messages.print("note: no browser could be opened here; open the address yourself")

        try:
            serve_forever(context.loaded.settings, options=options, ready_callback=ready)
        finally:
            withdraw(Home(context.loaded.settings.home))
        messages.print("stopped")


@app.command()
def build(
    at: HomeOptions,
    config: ConfigOption = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Write it there instead of to standard output.")] = None,
) -> None:
    """Print the configuration that a Ray cluster runs (serveConfigV2, YAML), checked with Ray's own schema.

    It holds no secrets: what every container needs in its environment is said on standard error.
    """
    _configured(config)
    with CommandContext(at) as context:
        from lodestone_serve.graph.config import as_yaml, serve_config
        from lodestone_serve.graph.secrets import secret_variables
        from lodestone_serve.traffic.proxy_middleware import PROXY_ENVIRONMENT, proxy_variables

        settings = context.loaded.settings
        made = serve_config(settings)
        if file is not None:
            file.write_text(as_yaml(made), encoding="utf-8")
        elif at.output is Output.JSON:
            context.emit(made, lambda _: None)
        else:
            sys.stdout.write(as_yaml(made))
        for variable in secret_variables(settings):
            context.messages.print(f"left out, to be set in the environment of every container: {variable}")
        for variable, value in (PROXY_ENVIRONMENT | proxy_variables(settings)).items():
            context.messages.print(f"for the proxies, in the environment of every container: {variable}={value}")


@app.command()
def deploy(
    at: HomeOptions,
    address: Annotated[str, typer.Option("--address", "-a", help="Dashboard of the cluster, http://HOST:8265.")],
    config: Annotated[
        Path | None, typer.Option("--config", help="What `serve build` wrote (YAML), or settings (TOML).")
    ] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait until everything runs; 0: not.")] = 600.0,
) -> None:
    """Give a running Ray cluster the configuration, as `serve deploy` does, and wait until everything in it runs."""
    given = None
    if config is not None and _is_yaml(config):
        import yaml

        from lodestone_serve.graph.config import read_config

        text = _text(config)
        read_config(text)  # refused here, before the cluster sees it
        given = yaml.safe_load(text)
    else:
        _configured(config)
    with CommandContext(at) as context:
        from lodestone_serve.graph.config import serve_config
        from lodestone_serve.graph.deploy import deploy as give

        with shown_wait(context, "deploying"):
            states = give(given or serve_config(context.loaded.settings), address=address, wait_s=wait)
        lines = "\n".join(f"{name}: {state}" for name, state in states.items())
        context.emit(states, lambda console: console.print(lines))


def _unlocking_page(settings: Settings, url: str) -> str:
    """Return the address to open: of a page that unlocks the service for this machine's user, where it asks for no keys."""
    from lodestone.config.home import Home
    from lodestone.home.unlocking import offer
    from lodestone_serve.auth.passes import SameMachine

    if not SameMachine(settings.serve).possible:
        return url
    try:
        return offer(Home(settings.home), url).resolve().as_uri()
    except OSError:  # the page then asks for the token, as it does without --open
        return url


def _configured(config: Path | None) -> tuple[dict[str, Any], dict[str, dict[str, Any]] | None]:
    """Return (settings, deployments' options) of a YAML file; settings in TOML are read by `load_settings` later."""
    if config is None:
        return {}, None
    if not _is_yaml(config):
        os.environ["LODESTONE_CONFIG"] = str(config)  # also for the processes that the service starts
        return {}, None
    from lodestone_serve.graph.config import read_config

    found = read_config(_text(config))
    return found.flags, found.options


def _is_yaml(config: Path) -> bool:
    return config.suffix.lower() in {".yaml", ".yml"}


def _text(config: Path) -> str:
    from lodestone.errors import ConfigurationError

    try:
        return config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "make one with `lodestone serve build`"
        raise ConfigurationError(f"cannot read {str(config)!r}: {error}", hint=hint) from error
