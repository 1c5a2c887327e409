"""`lodestone serve`: answer over HTTP until stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from lodestone_cli.options import HomeOption, ProfileOption
from lodestone_cli.session import Session


def serve(
    host: Annotated[str | None, typer.Option("--host", help="Address to bind (loopback).", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 picks a free one.", show_default=False)
    ] = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
) -> None:
    """Run the search service for this home. `lodestone search` and `index` use it while it runs."""
    with Session(home=home, profile=profile, flags={"serve": {"host": host, "port": port}}) as session:
        from rich.markup import escape

        from lodestone_serve.run import serve_forever

        messages = session.messages
        messages.print("starting …")

        def ready(url: str) -> None:
            served = escape(str(session.loaded.settings.home))
            messages.print(f"serving {served} on [bold]{url}[/]  (interface: {url}/openapi.json; Ctrl-C stops)")

        serve_forever(session.loaded.settings, ready_callback=ready)
        messages.print("stopped")
