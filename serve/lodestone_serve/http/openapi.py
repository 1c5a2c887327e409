"""The OpenAPI document of the service. `python -m lodestone_serve.http.openapi [FILE]` writes schemas/openapi.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from lodestone.config.settings import ServeSettings, Settings
from lodestone.services.sessions.serving import ServingSession
from lodestone.services.use_cases import make_services
from lodestone_serve.http.application import create_app

COMMITTED: Final = Path(__file__).parents[3] / "schemas" / "openapi.json"


def document() -> str:
    """The OpenAPI document of this version as JSON, in a stable order."""
    services = make_services(ServingSession(Settings()))  # routes are described, none is called
    app = create_app(services, settings=ServeSettings.model_validate({}), token="unused")  # noqa: S106
    return json.dumps(app.openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> None:
    """Write the document to the file named in `arguments`, by default the committed one."""
    target = Path(arguments[0]) if arguments else COMMITTED
    target.write_text(document(), encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
