"""Check of deploy/ without a cluster: `python -m scripts.check_manifests`.

The script builds every overlay and checks its objects: schemas, KubeRay's rules, the Serve config against Ray's schema and
against the settings that it is made of, what would go wrong in a live cluster, sizes, and the Dockerfile. `--write` makes the
generated files anew: each overlay's serve.yaml and qdrant.yaml, and the alert rules. Tests call the same functions.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator

from scripts.manifests import capacity, kuberay, monitoring, operation, schemas, serving
from scripts.manifests.overlays import OVERLAYS, ROOT, Object, build, component_objects, tool

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
_LINT_SECONDS = 60


def main(arguments: list[str] | None = None) -> int:
    """Check or write; return the exit code, which is 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write what is made of other files")
    if parser.parse_args(arguments).write:
        made = {serving.path_of(overlay): serving.wanted(overlay) for overlay in OVERLAYS} | {
            monitoring.PATH: monitoring.wanted()
        }
        made |= {capacity.path_of(overlay): text for overlay in OVERLAYS if (text := capacity.wanted(overlay)) is not None}
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
        return 0
    all_faults = list(_all())
    for fault in all_faults:
        print(f"wrong: {fault}", file=sys.stderr)
    return 1 if all_faults else 0


def _all() -> Iterator[str]:
    if not schemas.has_crds():
        print(f"skipped: KubeRay's schemas, since {schemas.CRDS} is not there", file=sys.stderr)
    for overlay in OVERLAYS:
        objects = build(overlay)
        operating = [f"{overlay}: {fault}" for fault in operation.faults(objects)]
        faults = [*check(objects, overlay), *serving.faults(overlay, objects), *operating, *capacity.faults(overlay, objects)]
        print(f"{overlay}: {len(objects)} objects, {len(faults)} faults")
        yield from faults
    yield from monitoring.faults()
    yield from check(component_objects(), "components")
    faults = lint_dockerfile()
    print(f"Dockerfile: {len(faults)} faults")
    yield from faults


def check(objects: list[Object], overlay: str) -> list[str]:
    """Return what is wrong with the objects of an overlay, by their schemas and by KubeRay's rules."""
    faults = []
    for item in objects:
        faults += schemas.faults(item)
        if schemas.group_of(item) == "ray.io":
            faults += kuberay.faults(item)
    return [f"{overlay}: {fault}" for fault in faults]


def lint_dockerfile() -> list[str]:
    """Return the lines that hadolint prints about the Dockerfile."""
    command = [tool("hadolint"), "--no-color", "--failure-threshold", "info", str(DOCKERFILE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LINT_SECONDS, check=False)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines if done.returncode else []


if __name__ == "__main__":
    sys.exit(main())
