"""Audit of the installed packages for known vulnerabilities: `python scripts/audit.py` asks PyPI's advisories by pip-audit.

Behind a mirror that serves packages but no advisories, pip-audit finds nothing and reports the same as for sound packages. So
the script first asks about a package that is known to be vulnerable. If that one is reported as sound, nothing was audited,
and the script says so. It then fails only where LODESTONE_REQUIRE_AUDIT=1 is set.

Exit codes: 0 nothing found (or not audited, loudly); 1 vulnerable packages; 2 not audited, where that is required.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

CANARY: Final = "jinja2==3.1.2"  # CVE-2024-22195 and later ones
REQUIRED: Final = "LODESTONE_REQUIRE_AUDIT"
_SECONDS: Final = 900.0

# Advisory -> (last day on which it is left out, reason). After that day it is reported again.
ACCEPTED: Final[Mapping[str, tuple[date, str]]] = {}


class NotAuditedError(RuntimeError):
    """The advisories are not available here; the message says why."""


def main(arguments: Sequence[str]) -> int:
    """Audit, print the advisories, and return the exit code. `arguments` replace pip-audit's `--local`, to try it out."""
    try:
        check_source()
        lines = vulnerable(_audited([*(arguments or ["--local"]), "--skip-editable"]), today=date.today())  # noqa: DTZ011
    except NotAuditedError as error:
        required = os.environ.get(REQUIRED) == "1"
        print(f"{'error' if required else 'WARNING'}: the packages were NOT audited: {error}", file=sys.stderr)
        return 2 if required else 0
    for line in lines:
        print(line)
    print(f"{len(lines)} advisories" if lines else "no known vulnerabilities", file=sys.stderr)
    return 1 if lines else 0


def check_source() -> None:
    """Return if the index knows of vulnerabilities at all.

    Raises:
        NotAuditedError: the canary is reported as sound, or there is no answer.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(f"{CANARY}\n")
        requirements.flush()
        report = _audited(["--requirement", requirements.name, "--no-deps", "--disable-pip"])
    if not vulnerable(report, today=date.max):
        raise NotAuditedError(f"the index that is asked has no advisories: it knows of none for {CANARY}")


def vulnerable(report: Mapping[str, Any], *, today: date) -> list[str]:
    """Return a line for each advisory of a report of pip-audit, without those that are accepted today."""
    lines = []
    for package in report["dependencies"]:
        for advisory in package.get("vulns", []):
            names = [advisory["id"], *advisory.get("aliases", [])]
            if any(name in ACCEPTED and today <= ACCEPTED[name][0] for name in names):
                continue
            fixed = ", ".join(advisory.get("fix_versions", [])) or "no release"
            lines.append(f"{package['name']} {package['version']}: {' '.join(names)}, fixed in {fixed}")
    return sorted(lines)


def _audited(arguments: Sequence[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise NotAuditedError(f"no answer in {_SECONDS:g} seconds") from error
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise NotAuditedError(f"pip-audit failed: {last[0]}") from error
    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
