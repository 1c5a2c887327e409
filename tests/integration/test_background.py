"""The service indexes, watches and repairs in the background, while every query is answered."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

import httpx
import psutil
import pytest
from tests.support.home import image_ids, settings_for
from tests.support.pictures import write_photo, write_photos
from tests.support.upkeep import asked_meanwhile, copied, found, serving, settled, until

from lodestone.access.caller import LOCAL_CALLER
from lodestone.config.settings import Settings
from lodestone.directories.naming import find_directory
from lodestone.errors import NotFoundError
from lodestone.home.running_service.address import TOKEN_HEADER
from lodestone.home.runtime import Runtime
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone_schemas.directories import DirectoryChange, DirectoryRequest
from lodestone_serve.http.application import create_app

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexed")
    write_photos(folder / "pictures", 6)
    with Runtime.open(settings_for(folder)) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",), corpus="photos"))
    return folder


@pytest.fixture
def settings(indexed: Path, tmp_path: Path) -> Settings:
    return copied(indexed, tmp_path)


async def test_an_added_directory_is_indexed_while_queries_are_answered(settings: Settings, tmp_path: Path) -> None:
    write_photos(tmp_path / "more", 20)
    (tmp_path / "more" / "broken.jpg").write_bytes(b"no picture")
    async with serving(settings) as services:
        async with asked_meanwhile(services):
            added = await asyncio.to_thread(
                services.directories.add, DirectoryRequest(path=str(tmp_path / "more"), corpus="photos"), LOCAL_CALLER
            )
            assert added.job is not None
            assert (await asyncio.to_thread(services.directories.get, added.directory.directory_id, LOCAL_CALLER)).indexing
            await settled(services)
        (job,) = (services.directories.jobs(LOCAL_CALLER)).jobs
        assert (job.state, job.counts["new"], job.error) == ("done", 21, "")
        described = await asyncio.to_thread(services.directories.get, added.directory.directory_id, LOCAL_CALLER)
        assert (described.images, described.failed, described.indexing) == (20, 1, False)
        assert len(await found(services)) == 26

        await asyncio.to_thread(
            services.directories.change, added.directory.directory_id, DirectoryChange(enabled=False), LOCAL_CALLER
        )
        assert len(await found(services)) == 6
        await services.directories.remove(added.directory.directory_id, LOCAL_CALLER)
        assert len(await found(services)) == 6
        with pytest.raises(NotFoundError):
            await asyncio.to_thread(services.directories.get, added.directory.directory_id, LOCAL_CALLER)


async def test_a_watched_directory_follows_its_files(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    (first, second, third, *_) = sorted(path.name for path in folder.iterdir())
    async with serving(settings) as services:
        catalog = services.session.runtime.catalog
        root = find_directory(catalog, "pictures")
        before = image_ids(services.session.runtime, "photos")
        await asyncio.to_thread(services.directories.change, root.root_id, DirectoryChange(watched=True), LOCAL_CALLER)
        await until(lambda: services.session.upkeep.watcher.paths() == [str(folder)])
        await settled(services)

        write_photo(folder / "new" / "added.jpg", seed=900)
        (folder / first).unlink()
        (folder / "albums").mkdir()
        (folder / second).rename(folder / "albums" / second)
        write_photo(folder / third, seed=901)
        expected = set(before) - {f"pictures/{first}", f"pictures/{second}"}
        expected |= {"pictures/new/added.jpg", f"pictures/albums/{second}"}
        await until(lambda: set(image_ids(services.session.runtime, "photos")) == expected)
        await settled(services)
        assert await found(services) == expected

        after = image_ids(services.session.runtime, "photos")
        assert after[f"pictures/albums/{second}"] == before[f"pictures/{second}"]
        done = [job for job in (services.directories.jobs(LOCAL_CALLER)).jobs if job.counts.get("embedded")]
        assert sum(job.counts["embedded"] for job in done) == 2, "only the new and the changed picture are embedded"


async def test_a_store_that_was_deleted_is_rebuilt_from_parquet_without_a_model(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(tmp_path / "home" / "store")
    monkeypatch.setattr("lodestone.home.runtime.Runtime.backbones", _unloadable(Runtime.backbones))
    async with serving(settings) as services:
        async with asked_meanwhile(services):
            await settled(services)
        assert len(await found(services)) == 6
        assert (services.directories.jobs(LOCAL_CALLER)).jobs == []


async def test_a_stored_file_that_was_deleted_is_made_again(settings: Settings, tmp_path: Path) -> None:
    (stored, *_) = (tmp_path / "home" / "embeddings").rglob("*efficientnet*.parquet")
    stored.unlink()
    async with serving(settings) as services:
        async with asked_meanwhile(services):
            await settled(services)
        (job,) = (services.directories.jobs(LOCAL_CALLER)).jobs
        assert (job.state, job.reason) == ("done", "repair")
        assert len(await found(services)) == 6
    assert stored.exists()


async def test_what_is_embedded_is_found_before_the_directory_is_finished_and_a_killed_process_costs_nothing(
    indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path / "more", 32)
    settings = copied(indexed, tmp_path, batch_slices=1, background_nice=7)
    async with serving(settings) as services:
        await settled(services)
        monkeypatch.setenv("LODESTONE_FAULT", "embedding:7")  # batches of four pictures: killed in the last of four slices
        added = await asyncio.to_thread(
            services.directories.add, DirectoryRequest(path=str(tmp_path / "more"), corpus="photos"), LOCAL_CALLER
        )
        await settled(services)
        job = (services.directories.jobs(LOCAL_CALLER)).jobs[-1]
        assert job.state == "failed"
        assert "killed by signal 9" in job.error
        partial = await asyncio.to_thread(services.directories.get, added.directory.directory_id, LOCAL_CALLER)
        assert 8 <= partial.images <= 24
        assert partial.images + partial.waiting == 32
        shown = {name for name in await found(services) if name.startswith("more/")}
        assert len(shown) >= 8

        monkeypatch.delenv("LODESTONE_FAULT")
        await asyncio.to_thread(services.directories.index, added.directory.directory_id, LOCAL_CALLER)
        await until(lambda: 7 in _niceness_of_children(), "for a process of the priority that was asked for")
        await settled(services)
        job = (services.directories.jobs(LOCAL_CALLER)).jobs[-1]
        assert job.counts["embedded"] == partial.waiting
        assert len({name for name in await found(services) if name.startswith("more/")}) == 32


def _niceness_of_children() -> set[int]:
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            found.add(child.nice())
    return found


async def test_a_folder_that_is_not_there_loses_nothing_and_is_caught_up_with_when_it_is_back(
    settings: Settings, tmp_path: Path
) -> None:
    with Runtime.open(settings) as runtime:
        runtime.catalog.set_root(find_directory(runtime.catalog, "pictures").root_id, watched=True)
    (tmp_path / "pictures").rename(tmp_path / "unplugged")
    async with serving(settings) as services:
        await settled(services)
        assert (services.directories.jobs(LOCAL_CALLER)).jobs == []
        assert len(await found(services)) == 6
        write_photo(tmp_path / "unplugged" / "later.jpg", seed=700)
        (tmp_path / "unplugged").rename(tmp_path / "pictures")
        await until(lambda: "pictures/later.jpg" in image_ids(services.session.runtime, "photos"))
        await settled(services)
        assert len(await found(services)) == 7


async def test_an_order_waits_while_another_process_indexes_the_corpus_and_can_be_taken_back(
    settings: Settings, tmp_path: Path
) -> None:
    write_photos(tmp_path / "more", 2)
    async with serving(settings) as services:
        await settled(services)
        runtime = services.session.runtime
        with corpus_lock(runtime.home, runtime.catalog.corpus("photos")):
            added = await asyncio.to_thread(
                services.directories.add, DirectoryRequest(path=str(tmp_path / "more"), corpus="photos"), LOCAL_CALLER
            )
            assert added.job is not None
            await until(lambda: "another process" in services.session.upkeep.queue.jobs()[-1].error)
            assert services.session.upkeep.queue.jobs()[-1].state == "waiting"
        await settled(services)
        assert (await asyncio.to_thread(services.directories.get, added.directory.directory_id, LOCAL_CALLER)).images == 2

        with corpus_lock(runtime.home, runtime.catalog.corpus("photos")):
            job = await asyncio.to_thread(services.directories.index, added.directory.directory_id, LOCAL_CALLER)
            await until(lambda: services.session.upkeep.queue.jobs()[-1].error)
            await asyncio.to_thread(services.directories.cancel_job, job.job_id, LOCAL_CALLER)
            await until(lambda: services.session.upkeep.queue.jobs()[-1].state == "cancelled")
        with pytest.raises(NotFoundError, match="there is no job"):
            await asyncio.to_thread(services.directories.cancel_job, "nothing", LOCAL_CALLER)


def _unloadable(backbones: object) -> object:
    def wrapped(self: Runtime) -> object:
        made = backbones(self)  # type: ignore[operator]
        for backbone in made:
            backbone.warm_up = _refuse
        return made

    return wrapped


def _refuse(*_: object) -> None:
    raise AssertionError("a model was loaded")


async def test_directories_are_managed_over_http_by_those_who_hold_the_token(settings: Settings, tmp_path: Path) -> None:
    write_photos(tmp_path / "more", 2)
    headers = {TOKEN_HEADER: "a-secret"}
    async with serving(settings) as services:
        app = create_app(services, settings=settings.serve, token="a-secret")
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as http:
            (listed,) = (await http.get("/v1/directories")).json()["directories"]
            assert (listed["name"], listed["corpus"], listed["images"], listed["enabled"]) == ("pictures", "photos", 6, True)
            place = f"/v1/directories/{listed['directory_id']}"
            body = {"path": str(tmp_path / "more"), "corpus": "photos"}
            for method, path, sent in (
                ("POST", "/v1/directories", body),
                ("PATCH", place, {"enabled": False}),
                ("POST", f"{place}/index", None),
                ("DELETE", place, None),
                ("DELETE", "/v1/jobs/x", None),
            ):
                refused = await http.request(method, path, json=sent)
                assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized"), path

            switched = await http.patch(place, json={"enabled": False, "watched": True}, headers=headers)
            assert (switched.json()["enabled"], switched.json()["watched"]) == (False, True)
            assert await found(services) == set()
            assert (await http.get(place)).json() == switched.json() | {"indexing": (await http.get(place)).json()["indexing"]}

            added = await http.post("/v1/directories", json=body, headers=headers)
            assert added.status_code == 201
            await settled(services)
            assert await found(services) == {"more/000000.jpg", "more/000001.jpg"}
            assert (await http.get("/v1/jobs")).json()["jobs"][-1]["state"] == "done"
            asked = await http.post(f"/v1/directories/{added.json()['directory']['directory_id']}/index", headers=headers)
            assert asked.status_code == 202
            await settled(services)

            for method, path, sent, status, code in (
                ("POST", "/v1/directories", {"path": str(tmp_path / "nowhere")}, 404, "not_found"),
                ("POST", "/v1/directories", {"path": str(tmp_path)}, 422, "invalid_request"),
                ("POST", "/v1/directories", {"path": ""}, 422, "invalid_request"),
                ("PATCH", place, {"colour": "red"}, 422, "invalid_request"),
                ("PATCH", "/v1/directories/nothing", {"enabled": True}, 404, "not_found"),
                ("DELETE", "/v1/directories/nothing", None, 404, "not_found"),
                ("DELETE", "/v1/jobs/nothing", None, 404, "not_found"),
            ):
                wrong = await http.request(method, path, json=sent, headers=headers)
                assert (wrong.status_code, wrong.json()["code"]) == (status, code), (path, wrong.text)
                assert wrong.headers["content-type"] == "application/problem+json"
            assert (await http.delete(place, headers=headers)).status_code == 204
            assert [one["name"] for one in (await http.get("/v1/directories")).json()["directories"]] == ["more"]
