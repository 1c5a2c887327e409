"""Process that a round of chaos indexes with: one run on the cluster, which tells each step on standard output.

`python -m tests.chaos.driver HOME CORPUS FOLDER` indexes a folder; without the folder it resumes the last run.
"""

from __future__ import annotations

import sys

from lodestone.config.settings import load_settings
from lodestone.errors import LodestoneError
from lodestone.home.runtime import Runtime
from lodestone.indexing.progress import ProgressEvent


def tell(event: ProgressEvent) -> None:
    """One line a step."""
    print("step", event.stage, event.done, event.detail, flush=True)


def main(home: str, corpus: str, *folders: str) -> int:
    """Index or resume; 0 when it went well."""
    from lodestone_jobs.index import run_index

    print("step begin 0", flush=True)
    try:
        settings = load_settings({"home": home}).settings
        with Runtime.open(settings, purpose="chaos") as runtime:
            report = run_index(runtime, folders, corpus=corpus, resume=None if folders else "", progress=tell)
    except LodestoneError as error:
        print(f"failed {error.code}: {error.message} ({error.hint})", flush=True)
        return error.exit_code
    print(f"done {report.images} pictures, embedded {report.counts.get('embedded', 0)}, retries {report.retries}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
