"""A catalog on a real PostgreSQL outlives the server's death, and loses nothing when several write at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, Engine, PoolProxiedConnection, insert, select, text, update
from tests.support.catalogs import embed_slice, make_root, picture, plan_slice, receipt
from tests.support.home import image_ids, settings_for, vectors_of
from tests.support.pictures import write_photos
from tests.support.postgres_server import PostgresServer, run_postgres

from lodestone.catalog import tables
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.database import engine as engines
from lodestone.catalog.records import ImageState
from lodestone.errors import CatalogError, LodestoneError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.corpus_changes import remove_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone_schemas.api import SearchRequest

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server(postgres_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with run_postgres(tmp_path_factory.mktemp("postgres"), binaries=postgres_binaries) as running:
        yield running


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    made = server.create_database()
    yield made
    server.drop_database(made)


@pytest.fixture
def catalog(url: str) -> Iterator[Catalog]:
    with Catalog.open(url) as opened:
        yield opened


def test_reads_and_writes_wait_for_a_server_that_restarts(server: PostgresServer, catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    server.kill()
    back = threading.Timer(0.5, server.start)
    back.start()
    assert catalog.corpus("holidays") == corpus
    back.join()
    server.kill()
    back = threading.Timer(0.5, server.start)
    back.start()
    assert catalog.add_images([picture(root, "a.jpg")]) == 1
    back.join()
    assert catalog.count_images() == 1


def test_every_write_happens_once_while_the_server_is_killed_again_and_again(server: PostgresServer, catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    over = threading.Event()

    def kill() -> None:
        for _ in range(6):
            over.wait(0.1)
            server.restart()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for number in range(15):
            uris = [f"{number}-{place}.jpg" for place in range(5)]
            images = [picture(root, uri) for uri in uris]
            assert catalog.add_images(images) == 5  # not 0: nothing was done twice
            record = plan_slice(catalog, images, minute=number)
            catalog.record_receipts([receipt(record)])
            assert [image.uri for image in catalog.slice_images(record.slice_id)] == uris
    finally:
        over.set()
        killer.join()
    assert catalog.count_images(corpus.corpus_id) == 75
    assert len(list(catalog.slices())) == 15
    assert catalog.count_unfinished(["meta"]) == (0, 0)


def test_a_write_whose_commit_got_no_answer_is_not_done_twice(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with break_commits(catalog._engine, monkeypatch, done=True) as broken:
        first, second = (catalog.start_run("index").run_id for _ in range(2))
    assert broken == [1]
    assert [run.run_id for run in catalog.runs()] == [second, first]


def test_a_write_whose_commit_did_not_happen_is_done_again(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with break_commits(catalog._engine, monkeypatch, done=False) as broken:
        run = catalog.start_run("index")
    assert broken == [1]
    assert [one.run_id for one in catalog.runs()] == [run.run_id]


class break_commits:
    """Let the connection die at the next commit, before or after the server has done it."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch, *, done: bool) -> None:
        self._engine, self._patch, self._done = engine, monkeypatch, done

    def __enter__(self) -> list[int]:
        broken: list[int] = []
        commit = self._engine.dialect.do_commit

        def once(connection: PoolProxiedConnection) -> None:
            if broken:
                commit(connection)
                return
            broken.append(1)
            if self._done:
                commit(connection)
            assert connection.dbapi_connection is not None
            connection.dbapi_connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        self._patch.setattr(self._engine.dialect, "do_commit", once)
        return broken

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def test_a_server_that_stays_away_is_a_clear_error(
    server: PostgresServer, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_SERVER_SECONDS", 0.3)
    server.kill()
    try:
        for act in (catalog.ping, catalog.runs, lambda: catalog.ensure_corpus("x"), lambda: catalog.start_run("index")):
            with pytest.raises(CatalogError, match="does not answer") as caught:
                act()
            assert "catalog.sqlite" not in caught.value.hint
    finally:
        server.start()


def test_no_update_is_lost_between_threads(catalog: Catalog) -> None:
    catalog.set_override("count", {"value": 0}, "s")
    table = tables.space_overrides

    def add(_: int) -> None:
        def change(connection: Connection) -> None:
            found = connection.execute(select(table.c.definition)).scalar_one()
            connection.execute(update(table).values(definition={"value": found["value"] + 1}))

        catalog._write(change)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(40)))
    assert catalog.overrides() == {"count": {"value": 40}}


def test_a_slice_whose_picture_changes_while_its_load_is_marked_is_loaded_again(catalog: Catalog) -> None:
    """Whichever of the two comes first, the slice must not count as loaded with the old payload."""
    _, root = make_root(catalog)
    images = [picture(root, f"{number}.jpg") for number in range(12)]
    catalog.add_images(images)
    records = {image.image_id: embed_slice(catalog, [image]) for image in images}
    slice_ids = [record.slice_id for record in records.values()]
    catalog.begin_loading("clip-1", slice_ids)
    known = list(catalog.images(records).values())

    def mark() -> None:
        for slice_id in slice_ids:
            catalog.mark_loaded("clip-1", [slice_id])

    with ThreadPoolExecutor(2) as pool:
        marked = pool.submit(mark)
        for image in known:
            catalog.update_images([replace(image, taken_at=1_000)])
        marked.result()
    assert {record.slice_id for record in catalog.unloaded_slices("clip-1")} == set(slice_ids)


def test_writers_of_different_parts_of_one_slice_are_both_counted(catalog: Catalog) -> None:
    """The second waits for the first, and must not go by what it saw before."""
    _, root = make_root(catalog)
    images = [picture(root, f"{number}.jpg") for number in range(12)]
    catalog.add_images(images)
    records = [plan_slice(catalog, [image]) for image in images]
    together = threading.Barrier(2)

    def write(part: str) -> None:
        for record in records:
            together.wait(timeout=180)
            catalog.record_receipts([receipt(record, part)])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ("meta", "lite0-v1")))
    assert list(catalog.unfinished_slices(["meta", "lite0-v1"])) == []


def test_threads_share_one_catalog_and_choose_different_names(catalog: Catalog) -> None:
    corpus, _ = make_root(catalog, path="/0/pictures")
    with ThreadPoolExecutor(8) as pool:
        roots = list(pool.map(lambda number: catalog.ensure_root(corpus.corpus_id, f"/{number}/pictures"), range(1, 9)))
        batches = list(pool.map(lambda root: catalog.add_images([picture(root, f"{n}.jpg") for n in range(20)]), roots))
    assert len({root.name for root in roots}) == 8
    assert batches == [20] * 8
    assert catalog.count_images(corpus.corpus_id, ImageState.PENDING) == 160


def test_a_writer_that_is_forestalled_again_and_again_gets_another_name(catalog: Catalog) -> None:
    """Whoever chooses a name together with seven others may find it gone seven times."""
    corpus, root = make_root(catalog, path="/0/pictures")
    names = [root.name] * 7 + ["free"]

    def change(connection: Connection) -> str:
        name = names.pop(0)
        row = {"root_id": name, "corpus_id": corpus.corpus_id, "name": name, "path": f"/{name}", "kind": "folder"}
        connection.execute(insert(tables.roots), row)
        return name

    assert catalog._write(change) == "free"
    assert {one.name for one in catalog.roots(corpus.corpus_id)} == {root.name, "free"}


def test_a_catalog_is_opened_while_its_server_restarts(server: PostgresServer, url: str, catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    catalog.add_images([picture(root, "a.jpg")])
    server.kill()
    with pytest.raises(psycopg.OperationalError):  # it is really gone while the catalog is opened
        server.execute("SELECT 1")
    back = threading.Timer(0.5, server.start)
    back.start()
    try:
        with Catalog.open(url) as opened:
            assert opened.corpus("holidays") == corpus
            assert opened.count_images(corpus.corpus_id) == 1
            opened.add_images([picture(root, "b.jpg")])
            assert opened.count_images(corpus.corpus_id) == 2
    finally:
        back.join()


def test_pictures_are_indexed_found_and_removed_with_the_catalog_on_a_server(url: str, tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 6)
    settings = settings_for(tmp_path).model_copy(update={"catalog_url": url})
    with Runtime.open(settings, purpose="a test") as runtime:
        report = index_paths(runtime, IndexRequest((tmp_path / "pictures",), corpus="photos"))
        assert report.images == 6
        (tmp_path / "pictures" / "000000.jpg").rename(tmp_path / "pictures" / "moved.jpg")
        ids = image_ids(runtime, "photos")
        index_paths(runtime, IndexRequest((tmp_path / "pictures",), corpus="photos"))
        assert image_ids(runtime, "photos")["pictures/moved.jpg"] == ids["pictures/000000.jpg"]
        assert set(vectors_of(runtime, "bridge")) == set(ids.values())
        remove_corpus(runtime, "photos")
        assert vectors_of(runtime, "bridge") == {}
        assert runtime.catalog.count_images() == 0
    assert not (tmp_path / "home" / "catalog.sqlite").exists()


def test_a_query_does_not_wait_for_a_server_that_is_gone_or_hangs_beyond_its_deadline(
    server: PostgresServer, url: str, tmp_path: Path
) -> None:
    """The first query after the loss has connections of before it. Index runs wait for a minute all the same."""
    write_photos(tmp_path / "pictures", 3)
    settings = settings_for(tmp_path).model_copy(update={"catalog_url": url})
    with Runtime.open(settings, purpose="a test") as runtime:
        index_paths(runtime, IndexRequest((tmp_path / "pictures",)))
        engine = runtime.engine(recording=False)
        request = SearchRequest(query="a photo of a dog", deadline_ms=8_000, guides=0)

        def asked() -> tuple[object, float]:
            started = time.monotonic()
            try:
                return len(asyncio.run(engine.answer(request)).hits), time.monotonic() - started
            except LodestoneError as error:
                return error.code, time.monotonic() - started

        assert asked()[0] == 3
        server.kill()
        try:
            for _ in range(2):
                code, seconds = asked()
                assert code == "catalog_failed"
                assert seconds < 8
        finally:
            server.start()
        assert asked()[0] == 3
        hurried, outcomes, answered = request.model_copy(update={"deadline_ms": 2_000}), [], threading.Event()

        async def ask() -> None:
            started = time.monotonic()
            try:
                await engine.answer(hurried)
            except LodestoneError as error:
                outcomes.append((error.code, time.monotonic() - started))
            answered.set()  # the thread that hangs ends with the server's pause

        with server.hanging():
            asking = threading.Thread(target=lambda: asyncio.run(ask()))
            asking.start()
            assert answered.wait(30)
        asking.join()
        ((code, seconds),) = outcomes
        assert code == "deadline_exceeded"
        assert seconds < 8


def test_openers_of_a_new_catalog_migrate_it_once(url: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        opened = list(pool.map(lambda _: Catalog.open(url), range(3)))
    try:
        assert len({catalog.ensure_corpus("shared").corpus_id for catalog in opened}) == 1
    finally:
        for catalog in opened:
            catalog.close()


def test_the_password_is_not_in_messages(server: PostgresServer) -> None:
    location = server.url.replace("lodestone@", "lodestone:hunter2@").replace("/postgres", "/nowhere")
    with pytest.raises(CatalogError, match="nowhere") as caught:
        Catalog.open(location)
    assert "hunter2" not in str(caught.value)


def test_names_page_in_byte_order_whatever_the_servers_collation(catalog: Catalog) -> None:
    with catalog._engine.connect() as connection:
        ordered = list(connection.execute(text("SELECT x FROM (VALUES ('a'), ('B')) AS v(x) ORDER BY x")).scalars())
    _, root = make_root(catalog)
    catalog.add_images([picture(root, uri) for uri in ("a", "B", "ä", "Z", "_")])
    assert [image.uri for image in catalog.images_of_root(root.root_id)] == ["B", "Z", "_", "a", "ä"]
    assert ordered in (["a", "B"], ["B", "a"])
