"""DuckDB and Polars read the embeddings as documented, with the queries of docs/embedding-store.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from lodestone.embeddings.slices import fingerprint, write_part
from lodestone.embeddings.tables import captions_table, meta_table, outputs_table
from lodestone.files.opening import open_area

CORPUS = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
IDS = [f"00000000-0000-0000-0000-{number:012}" for number in range(12)]
POOLED = np.random.default_rng(7).normal(size=(12, 16)).astype(np.float16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three slices of four pictures, one of which failed."""
    root = tmp_path_factory.mktemp("embeddings")
    area = open_area(root)
    for start in range(0, 12, 4):
        rows = slice(start, start + 4)
        ids, hashes = IDS[rows], [f"{number:064x}" for number in range(start, start + 4)]
        fp = fingerprint(list(zip(ids, hashes, strict=True)), "1")
        write_part(
            area, CORPUS, fp, "lite0-a1", outputs_table(ids, hashes, {"pooled": POOLED[rows]}, metadata={"part": "lite0-a1"})
        )
        about: list[dict[str, Any]] = [
            {
                "image_id": image_id, "uri": f"2024/{number}.jpg", "hash": hashes[number], "size": 1000 + number, "mtime_ns": 5,
                "width": 640, "height": 480, "format": "JPEG", "taken_at": 1_720_000_000 + start, "latitude": 47.5,
                "longitude": 8.5, "camera": "Lodecam 1", "captions": [{"source": "xmp", "text": f"ein Hund 🐕 {number}"}],
            }
            for number, image_id in enumerate(ids)
        ]  # fmt: skip
        about[3] |= {"width": None, "error_code": "truncated", "error_message": "the file ends early"}
        write_part(area, CORPUS, fp, "meta", meta_table(about, metadata={"decoder": "1"}))
        vectors = np.ones((4, 8), np.float32)
        captions = captions_table([(image_id, "xmp", "a dog") for image_id in ids], vectors)
        write_part(area, CORPUS, fp, "captions-minilm-1", captions)
    return root


def test_duckdb_reads_vectors_and_searches_them(folder: Path) -> None:
    import duckdb

    found = duckdb.sql(f"SELECT image_id, pooled FROM '{folder}/*/*/*.lite0-*.parquet' ORDER BY image_id").fetchall()
    assert [image_id for image_id, _ in found] == IDS
    np.testing.assert_array_equal(np.array([vector for _, vector in found], np.float32), POOLED.astype(np.float32))
    nearest = duckdb.sql(f"""
        WITH v AS (SELECT image_id, pooled::FLOAT[16] AS pooled FROM '{folder}/*/*/*.lite0-*.parquet')
        SELECT b.image_id FROM v a, v b WHERE a.image_id = '{IDS[5]}'
        ORDER BY array_cosine_similarity(a.pooled, b.pooled) DESC LIMIT 3
    """).fetchall()
    unit = POOLED.astype(np.float64) / np.linalg.norm(POOLED.astype(np.float64), axis=1, keepdims=True)
    assert [image_id for (image_id,) in nearest] == [IDS[row] for row in np.argsort(-unit @ unit[5])[:3]]


def test_duckdb_joins_what_is_known_of_the_files(folder: Path) -> None:
    import duckdb

    found = duckdb.sql(f"""
        SELECT uri, make_timestamp(taken_at * 1000000), camera, captions[1].text
        FROM '{folder}/*/*/*.meta.parquet' JOIN '{folder}/*/*/*.lite0-*.parquet' USING (image_id, hash)
        WHERE error_code IS NULL ORDER BY taken_at, uri LIMIT 1
    """).fetchall()
    assert [(uri, str(taken), camera, text) for uri, taken, camera, text in found] == [
        ("2024/0.jpg", "2024-07-03 09:46:40", "Lodecam 1", "ein Hund 🐕 0")
    ]
    failures = duckdb.sql(f"SELECT error_code, count(*) FROM '{folder}/*/*/*.meta.parquet' GROUP BY 1 ORDER BY 1").fetchall()
    assert failures == [("truncated", 3), (None, 9)]


def test_polars_reads_fixed_size_half_floats(folder: Path) -> None:
    import polars as pl

    table = pl.scan_parquet(f"{folder}/*/*/*.lite0-*.parquet").sort("image_id").collect()
    assert table.schema["pooled"] == pl.Array(pl.Float16, 16)
    np.testing.assert_array_equal(table["pooled"].to_numpy(), POOLED)
    about = pl.scan_parquet(f"{folder}/*/*/*.meta.parquet").filter(pl.col("error_code").is_null())
    assert about.select(pl.len()).collect().item() == 9
    first = about.sort("taken_at", "uri").select(pl.col("captions").list.first().struct.field("text")).collect().item(0, 0)
    assert first == "ein Hund 🐕 0"


def test_every_file_says_what_made_it_and_has_no_dictionaries(folder: Path) -> None:
    for path in folder.rglob("*.parquet"):
        file = pq.ParquetFile(path)
        facts = file.schema_arrow.metadata
        assert facts[b"schema"] == b"1"
        assert (b"decoder" in facts) == (".meta." in path.name)
        columns = [file.metadata.row_group(0).column(number) for number in range(file.metadata.num_columns)]
        assert not any(column.has_dictionary_page for column in columns)


def test_a_new_backbone_adds_files_and_touches_no_other(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    fp = fingerprint(list(zip(IDS[:4], [f"{number:064x}" for number in range(4)], strict=True)), "1")
    outputs = outputs_table(IDS[:4], ["0" * 64] * 4, {"vector": np.ones((4, 4), np.float16)})
    written = write_part(open_area(folder), CORPUS, fp, "clip-b2", outputs)
    assert {path: path.read_bytes() for path in folder.rglob("*.parquet") if path in before} == before
    (folder / written.path).unlink()
