"""Pictures whose files end early: found, marked wherever they are described, and whole again after a new copy."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tests.support.bad_input import run
from tests.support.home import open_runtime
from tests.support.pictures import write_photos

from lodestone.catalog.overview import corpus_overview
from lodestone.embeddings.tables import meta_table
from lodestone.indexing.run.corpus_changes import compact_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.services.pictures import _info
from lodestone_cli.commands.index import print_report


def _printed(report: IndexReport) -> str:
    console = Console(record=True, width=200, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    print_report(console, report)
    return console.export_text()


def test_a_cut_picture_is_found_and_marked_until_a_whole_copy_comes(tmp_path: Path) -> None:
    cut, damaged, whole = write_photos(tmp_path / "photos", 3, size=(160, 120))
    content = cut.read_bytes()
    cut.write_bytes(content[: len(content) * 8 // 10])
    damaged.write_bytes(damaged.read_bytes()[:300])
    with open_runtime(tmp_path) as runtime:
        report = index_paths(runtime, IndexRequest((tmp_path / "photos",)))
        assert (report.images, report.counts["incomplete"], report.counts["failed"]) == (2, 1, 1)
        assert "1 incomplete" in _printed(report)
        catalog = runtime.catalog
        corpus = catalog.corpus("default")
        (root,) = catalog.roots(corpus.corpus_id)
        shares = {image.uri: image.decoded_share for image in catalog.images_of_root(root.root_id)}
        assert shares[whole.name] is None
        assert shares[damaged.name] is None
        share = shares[cut.name]
        assert share is not None
        assert 0.5 <= share < 1
        told = {image.uri: _info(image, root, "default", []).decoded_share for image in catalog.images_of_root(root.root_id)}
        assert told == shares
        overview = corpus_overview(catalog, corpus)
        assert (overview.images, overview.incomplete, overview.failures) == (2, 1, 1)

        compact_corpus(runtime, "default")
        (part,) = (path for path in runtime.home.embeddings.rglob("*.parquet") if ".meta." in path.name)
        table = pq.read_table(part, columns=["uri", "decoded_share"])
        kept = dict(zip(table.column("uri").to_pylist(), table.column("decoded_share").to_pylist(), strict=True))
        assert kept == shares

        again = index_paths(runtime, IndexRequest((tmp_path / "photos",)))
        assert "incomplete" not in again.counts  # nothing was embedded
        assert "incomplete" not in _printed(again)

        cut.write_bytes(content)
        mended = index_paths(runtime, IndexRequest((tmp_path / "photos",)))
        assert mended.counts["changed"] == 1
        assert "incomplete" not in mended.counts
        assert {image.decoded_share for image in catalog.images_of_root(root.root_id)} == {None}
        assert corpus_overview(catalog, corpus).incomplete == 0


def test_the_mark_stands_in_the_facts_of_the_picture_and_of_the_home(tmp_path: Path) -> None:
    (cut,) = write_photos(tmp_path / "photos", 1, size=(160, 120))
    content = cut.read_bytes()
    cut.write_bytes(content[:-2])
    with open_runtime(tmp_path) as runtime:
        index_paths(runtime, IndexRequest((tmp_path / "photos",)))
    home = tmp_path / "home"
    status = run("status", home=home)
    assert "1 incomplete" in status.out, status.out + status.err
    listed = run("corpus", "list", home=home)
    assert "1 incomplete" in listed.out
    assert run("corpus", "list", "--output", "json", home=home).json[0]["incomplete"] == 1


@pytest.mark.parametrize(("share", "stored"), [(None, None), (0.75, 0.75)])
def test_the_share_is_kept_in_the_parquet_file(share: float | None, stored: float | None) -> None:
    row = {"image_id": "1", "uri": "a.jpg", "hash": "h", "size": 1, "mtime_ns": 1, "decoded_share": share}
    assert meta_table([row], metadata={}).column("decoded_share").to_pylist() == [stored]
