"""Desktop beside the terminal: whether a window can open at all, and pages opened in a browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")  # variables of systems whose programs can open windows


def has_screen(environment: Mapping[str, str] = os.environ, *, platform: str = sys.platform) -> bool:
    """Return whether a program can open a window here: not over SSH without forwarding, in containers or in services.

    Only Linux and the BSDs tell; other systems always have a screen.

    Args:
        environment: The process's variables.
        platform: Name of the system, as in `sys.platform`.
    """
    if platform in {"darwin", "win32"}:
        return True
    return any(environment.get(name) for name in _DISPLAYS)


def open_in_browser(page: str) -> bool:
    """Open a page in a graphical browser; return False where there is none.

    Without a screen, Python's `webbrowser` would start a browser in text mode (`www-browser`, `lynx`), which takes the terminal
    and cannot show the page. A browser that the variable BROWSER names is the user's own choice and is started.

    Args:
        page: Address of the page.
    """
    import webbrowser

    if not has_screen() and not os.environ.get("BROWSER"):
        return False
    try:
        return webbrowser.open(page)
    except (webbrowser.Error, OSError):
        return False
