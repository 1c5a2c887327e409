"""A removal leaves nothing of the removed pictures in the home, and everything of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.home_bytes import finds, needles
from tests.support.pictures import photo, write_photo

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageState, RunState, TagRecord
from lodestone.directories.changes import remove_directory
from lodestone.directories.naming import find_directory
from lodestone.errors import NotFoundError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.corpus_changes import remove_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.remains import remains_of
from lodestone.indexing.run.removal import finish_removals, remove_pictures
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.sync.collections import sync
from lodestone.services.local import LocalClient
from lodestone_schemas.api import SearchRequest

LATITUDE, LONGITUDE = 61.234375, 7.62890625  # exact in every kind of float
SECRET = "quokkaville"
_GPS, _DMS = 0x8825, 3600


def write_secret(path: Path, *, seed: int, number: int) -> None:
    """A photo with a place, a description, a caption beside it, and a name, all of which say `SECRET` or where it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    gps = exif.get_ifd(_GPS)
    for ref, key, letter, degrees in ((1, 2, "N", LATITUDE), (3, 4, "E", LONGITUDE)):
        gps[ref], gps[key] = letter, (degrees, 0.0, 0.0)
    exif[0x010F] = f"{SECRET}cam"
    exif[_GPS] = gps
    xmp = (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        '<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:description><rdf:Alt><rdf:li xml:lang="x-default">'
        f"{SECRET} described inside {number}</rdf:li></rdf:Alt></dc:description></rdf:Description></rdf:RDF></x:xmpmeta>"
    )
    photo(seed=seed).save(path, quality=90, exif=exif, xmp=xmp.encode())
    path.with_suffix(".txt").write_text(f"a {SECRET} party beside {number}\n")


class Album:
    """A home with a folder that stays and one that is removed, both searched, tagged and judged."""

    def __init__(self, folder: Path, runtime: Runtime) -> None:
        self.folder, self.runtime = folder, runtime
        self.home = folder / "home"
        self.kept = folder / "kept"
        self.secret = folder / f"{SECRET}-2018"
        for number in range(6):
            write_photo(self.kept / f"{number}.jpg", seed=number)
            (self.kept / f"{number}.txt").write_text(f"dots of the kept kind {number}\n")
        for number in range(3):
            write_secret(self.secret / f"{SECRET}_{number}.jpg", seed=100 + number, number=number)

    def index(self, *paths: Path, corpus: str = "photos") -> None:
        table = self.folder / "captions.csv"
        if not table.exists():
            table.write_text(f"file,caption\n{SECRET}_0.jpg,{SECRET} from the table\n")
        index_paths(self.runtime, IndexRequest(paths, corpus=corpus, captions=table if self.secret in paths else None))

    def use(self, corpus: str = "photos") -> None:
        """Search, so that pictures are in the history, tag one of the secret ones, and judge them."""
        ids = image_ids(self.runtime, corpus)
        secret = [image_id for name, image_id in ids.items() if SECRET in name]
        self.runtime.catalog.add_tags([TagRecord.new(image_id, f"{SECRET}tag", "user", score=1.0) for image_id in secret])
        self.runtime.deliver_tags()
        answer = asyncio.run(self.answer("coloured dots"))
        self.runtime.catalog.add_feedback(answer.query_id, [ids["kept/0.jpg"], secret[0]], [secret[1]], 0.1)

    async def answer(self, words: str):
        engine = self.runtime.engine()
        await engine.warm_up()
        answer = await engine.answer(SearchRequest(query=words, limit=50))
        await engine.settled()
        return answer

    def kept_vectors(self) -> dict[str, bytes]:
        """Id -> vector of the kept pictures: what their scores are made of."""
        ids = {image_id for name, image_id in image_ids(self.runtime, "photos").items() if name.startswith("kept/")}
        return {
            image_id: vector.tobytes() for image_id, vector in vectors_of(self.runtime, "bridge").items() if image_id in ids
        }

    def needles(self, corpus: str = "photos", *, name: str = SECRET) -> dict[str, bytes]:
        """What the removed pictures are known by: to be read before they are removed."""
        catalog, runtime = self.runtime.catalog, self.runtime
        found = catalog.corpus(corpus)
        images = [
            image
            for root in catalog.roots(found.corpus_id)
            for image in catalog.images_of_root(root.root_id)
            if name in image.uri
        ]
        assert images
        assert all(image.latitude == LATITUDE for image in images)
        wanted = needles(
            texts=[name, *(image.hash for image in images)],
            numbers=[LATITUDE, LONGITUDE] if name == SECRET else [],
            ids=[image.image_id for image in images],
        )
        vectors = vectors_of(runtime, "bridge")
        for image in images:
            if image.image_id in vectors:
                wanted[f"vector of {image.uri}"] = vectors[image.image_id][:16].tobytes()
        return wanted


@pytest.fixture
def album(tmp_path: Path) -> Iterator[Album]:
    with open_runtime(tmp_path, keep_gone_days=0) as runtime:
        yield Album(tmp_path, runtime)


def remove_folder(album: Album) -> None:
    remove_directory(album.runtime, find_directory(album.runtime.catalog, album.secret.name).root_id)
    sync(album.runtime)


def remove_singles(album: Album) -> None:
    ids = image_ids(album.runtime, "photos")
    removed = remove_pictures(album.runtime, [image_id for name, image_id in ids.items() if SECRET in name])
    assert [one.images for one in removed] == [3]
    sync(album.runtime)


def remove_files(album: Album) -> None:
    for path in album.secret.iterdir():
        path.unlink()
    write_photo(album.secret / "later.jpg", seed=900)  # an empty folder looks like a disk that is away
    album.index(album.secret)


@pytest.mark.parametrize(
    "remove",
    [
        pytest.param(remove_folder, id="directory"),
        pytest.param(remove_singles, id="pictures", marks=[pytest.mark.nightly, pytest.mark.slow]),
        pytest.param(remove_files, id="gone files", marks=[pytest.mark.nightly, pytest.mark.slow]),
    ],
)
def test_no_byte_of_removed_pictures_stays_and_the_others_are_found_as_before(
    album: Album, remove: Callable[[Album], None]
) -> None:
    album.index(album.kept, album.secret)
    album.use()
    vectors = album.kept_vectors()
    assert len(vectors) == 6
    wanted = album.needles()
    before = finds(album.home, wanted)
    assert {found.split(" ")[0] for found in before} >= {"text", "float64", "id", "vector"}
    if remove is not remove_folder:
        wanted = {name: needle for name, needle in wanted.items() if needle != SECRET.encode()}
        wanted |= needles(texts=[f"{SECRET}_", f"{SECRET}tag", f"{SECRET}cam", f"{SECRET} described", f"a {SECRET} party"])

    remove(album)
    album.runtime.close()

    left = finds(album.home, wanted)
    assert not left, "\n".join(left)
    with open_runtime(album.folder) as runtime:
        album.runtime = runtime
        assert album.kept_vectors() == vectors
        answer = asyncio.run(album.answer("dots of the kept kind"))
        assert {hit.image_id for hit in answer.hits if hit.root == "kept"} == set(vectors)


def test_no_byte_of_a_removed_corpus_stays(album: Album) -> None:
    album.index(album.kept, corpus="others")
    album.index(album.kept, album.secret)
    album.use()
    wanted = album.needles()
    remove_corpus(album.runtime, "photos")
    sync(album.runtime)
    album.runtime.close()
    left = finds(album.home, wanted)
    assert not left, "\n".join(left)


@pytest.mark.slow
def test_a_removal_that_is_killed_again_and_again_is_finished_by_the_same_command(
    album: Album, monkeypatch: pytest.MonkeyPatch
) -> None:
    album.index(album.kept, album.secret)
    wanted = album.needles()
    catalog = album.runtime.catalog
    root_id = find_directory(catalog, album.secret.name).root_id
    for owner, name in (
        (Catalog, "withdraw_images"),
        (Catalog, "forget_mentions"),
        (Catalog, "replace_slices"),
        (Catalog, "drop_slice"),
        (Catalog, "remove_images"),
        (Catalog, "remove_root"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, killed)
            with pytest.raises(KilledError):
                remove_directory(album.runtime, root_id)
        assert catalog.root(root_id).path == str(album.secret), "the command must find what it left"
    remove_directory(album.runtime, root_id)
    sync(album.runtime)
    album.runtime.close()
    left = finds(album.home, wanted)
    assert not left, "\n".join(left)


class KilledError(Exception):
    """As if the process ended here."""


def killed(*_arguments: object, **_options: object) -> None:
    raise KilledError


def test_old_slices_stay_while_another_run_may_read_them_and_are_told_until_they_go(album: Album) -> None:
    album.index(album.kept, album.secret)
    catalog = album.runtime.catalog
    other = catalog.start_run("index", catalog.ensure_corpus("others").corpus_id)
    removed = remove_directory(album.runtime, find_directory(catalog, album.secret.name).root_id)
    assert removed.erasure.waiting > 0
    remains = remains_of(album.runtime)
    assert (remains.slices, remains.slice_bytes) == (removed.erasure.waiting, removed.erasure.waiting_bytes)
    assert remains.slice_bytes > 0
    assert "remain in" in remains.sentences()[0]
    assert finish_removals(album.runtime) == 0
    assert remains_of(album.runtime).slices == remains.slices
    catalog.finish_run(other.run_id, RunState.DONE)
    finish_removals(album.runtime)
    assert remains_of(album.runtime).sentences() == []


def test_a_picture_is_removed_through_the_client_and_an_unknown_one_is_refused(album: Album) -> None:
    album.index(album.kept)
    ids = image_ids(album.runtime, "photos")
    with LocalClient.over(album.runtime) as client:
        client.remove_image(ids["kept/3.jpg"])
        with pytest.raises(NotFoundError):
            client.remove_image(ids["kept/3.jpg"])
    assert set(image_ids(album.runtime, "photos")) == {f"kept/{number}.jpg" for number in (0, 1, 2, 4, 5)}
    assert album.runtime.catalog.forget_tombstones([]) == 0, "every collection has carried out the deletion"


def test_only_the_slices_that_hold_a_removed_picture_are_written_again(album: Album) -> None:
    for number in range(10, 30):
        write_photo(album.kept / f"{number}.jpg", seed=number)
    album.index(album.kept)
    corpus = album.runtime.catalog.corpus("photos")
    before = {record.slice_id for record in album.runtime.catalog.slices(corpus.corpus_id)}
    assert len(before) > 2
    ids = image_ids(album.runtime, "photos")
    report = remove_pictures(album.runtime, [ids["kept/12.jpg"]])[0]
    after = {record.slice_id for record in album.runtime.catalog.slices(corpus.corpus_id)}
    assert (report.erasure.slices, report.erasure.rewritten, report.erasure.again) == (1, 1, 0)
    assert (len(before - after), len(after - before)) == (1, 1)


def test_a_file_that_is_gone_is_kept_as_long_as_it_may_come_back(tmp_path: Path) -> None:
    with open_runtime(tmp_path, keep_gone_days=1) as runtime:
        album = Album(tmp_path, runtime)
        album.index(album.kept, album.secret)
        ids = image_ids(runtime, "photos")
        path = album.secret / f"{SECRET}_1.jpg"
        content = path.read_bytes()
        path.unlink()
        album.index(album.secret)
        assert runtime.catalog.count_gone()[0] == 1
        remove_pictures(runtime, [ids[f"{album.secret.name}/{SECRET}_0.jpg"]])  # of the same slice
        path.write_bytes(content)
        report = index_paths(runtime, IndexRequest((album.secret / path.name,), corpus="photos"))
        assert report.counts.get("embedded", 0) == 0
        assert image_ids(runtime, "photos")[f"{album.secret.name}/{path.name}"] == ids[f"{album.secret.name}/{path.name}"]
        image = runtime.catalog.images([ids[f"{album.secret.name}/{path.name}"]])
        assert [one.state for one in image.values()] == [ImageState.ACTIVE]
        assert len(vectors_of(runtime, "bridge")) == 8


def test_what_an_edited_picture_and_a_changed_caption_said_before_goes_with_the_run_that_notices(album: Album) -> None:
    album.index(album.kept, album.secret)
    wanted = album.needles()
    vectors = album.kept_vectors()
    for number in range(3):
        write_photo(album.secret / f"{SECRET}_{number}.jpg", seed=700 + number)  # without place, camera, or description
    (album.secret / f"{SECRET}_0.txt").unlink()
    (album.secret / f"{SECRET}_1.txt").write_text("nothing to tell\n")
    (album.secret / f"{SECRET}_2.txt").write_text("nothing to tell\n")
    album.folder.joinpath("captions.csv").write_text(f"file,caption\n{SECRET}_0.jpg,replaced in the table\n")
    album.index(album.secret)
    album.runtime.close()
    wanted = {name: needle for name, needle in wanted.items() if not name.startswith("id ") and needle != SECRET.encode()}
    wanted |= needles(texts=[f"{SECRET}cam", f"{SECRET} described", f"a {SECRET} party", f"{SECRET} from the table"])
    left = finds(album.home, wanted)
    assert not left, "\n".join(left)
    with open_runtime(album.folder) as runtime:
        album.runtime = runtime
        assert album.kept_vectors() == vectors


def test_the_old_text_of_a_changed_caption_alone_goes_too(album: Album) -> None:
    album.index(album.kept, album.secret)
    ids = image_ids(album.runtime, "photos")
    (album.secret / f"{SECRET}_0.txt").write_text("another text\n")
    (album.secret / f"{SECRET}_1.txt").unlink()
    album.index(album.secret)
    assert image_ids(album.runtime, "photos") == ids
    assert len(vectors_of(album.runtime, "bridge")) == 9
    album.runtime.close()
    left = finds(album.home, needles(texts=["party beside 0", "party beside 1"]))
    assert not left, "\n".join(left)
    assert finds(album.home, needles(texts=["party beside 2", "another text"]))
