"""What does the API look like to other programs? `python -m lodestone_serve.openapi [FILE]` writes schemas/openapi.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

from lodestone.config.settings import ServeSettings
from lodestone_serve.api import create_app
from lodestone_serve.services import Services

COMMITTED = Path(__file__).parents[2] / "schemas" / "openapi.json"


def document() -> str:
    """The OpenAPI document of this version as JSON, in a stable order."""
    unused = cast("Services", object())  # routes are described, none is called
    app = create_app(unused, settings=ServeSettings.model_validate({}), token="unused")  # noqa: S106
    return json.dumps(app.openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> None:
    """Write the document to the file named in `arguments`, by default the committed one."""
    target = Path(arguments[0]) if arguments else COMMITTED
    target.write_text(document(), encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
