"""One-time codes by which the user of the service's machine unlocks the search page in a browser.

`lodestone serve --open` offers a code: its digest lies in the home, and the code itself in a small page beside it that leads
the browser to the service. Both are readable by their owner alone. The address of that page is all that the browser's command
line shows to the machine's other users. The code stands behind `#`, so it is never sent as part of an address. It counts
once, for `VALID_S` seconds, so what a browser's history keeps of it is worth nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import json
import secrets
import time
from pathlib import Path
from typing import Final

from lodestone.config.home import Home
from lodestone.durable_files import read_small_text, write_atomically

VALID_S: Final = 120.0
"""Seconds for which a code counts: a browser may have to start first."""

_OFFER: Final = "unlock.json"
_PAGE: Final = "unlock.html"
_REDIRECT: Final = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={address}">
<title>Lodestone</title>
<p><a href="{address}">Open Lodestone</a></p>
"""


def offer(home: Home, url: str) -> Path:
    """Offer a new code in place of any earlier one, and return the page that leads a browser to the service with it.

    Args:
        home: Home of the service.
        url: Address of the service on this machine.

    Raises:
        OSError: The files cannot be written.
    """
    code = secrets.token_urlsafe(32)
    page = home.path / _PAGE
    record = {"sha256": _digest(code), "expires_at": time.time() + VALID_S}
    write_atomically(home.path / _OFFER, json.dumps(record), mode=0o600)
    address = html.escape(f"{url.rstrip('/')}/#unlock={code}")
    write_atomically(page, _REDIRECT.format(address=address), mode=0o600)
    return page


def redeem(home: Home, code: str) -> bool:
    """Return whether the code is the one that is offered, and withdraw it: of several who send it, one is told so."""
    try:
        record = json.loads(read_small_text(home.path / _OFFER))
        digest, expires_at = str(record["sha256"]).encode("utf-8", "surrogatepass"), float(record["expires_at"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return False
    left = expires_at - time.time()
    if not 0 < left <= VALID_S or not hmac.compare_digest(digest, _digest(code).encode()):
        return False
    return withdraw(home)


def withdraw(home: Home) -> bool:
    """Withdraw the code that is offered; return whether there was one. Of several callers at once, one is told so."""
    (home.path / _PAGE).unlink(missing_ok=True)
    try:
        (home.path / _OFFER).unlink()
    except FileNotFoundError:
        return False
    return True


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
