"""The guide cache: what is found again, how alike it is, what makes room, and what damage costs."""

import io
import multiprocessing
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from filelock import FileLock
from tests.support.engines import Drawer, Recorder, drawn, engine, hub_of, ids

from lodestone.generators.base import Guide, GuideRequest, PictureEdit
from lodestone.generators.cache import PICTURE_KEY, GuideCache
from lodestone.generators.cache_files import remove_edited
from lodestone.generators.cache_keys import GuideKey, key_of, normalised_prompt
from lodestone.generators.pictures import pixels_of
from lodestone.query_notes import QueryNotes

MB = 2**20
KEY = GuideKey("a cat", "paint", "1", "m", 0, 64)


def unit(*values):
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


def guide(number=0, *, seed=0, side=64, **rest):
    pixels = np.random.default_rng([seed, number]).integers(0, 256, (side, side, 3), np.uint8)
    return Guide(f"paint/{number}", "paint", 0.5, {"prompt": "a cat"}, **{"pixels": pixels, **rest})


@pytest.fixture
def cache(tmp_path):
    return GuideCache(tmp_path / "guides", limit_bytes=MB, picture_px=64)


def files(cache):
    return sorted(path for path in cache._folder.iterdir() if path.suffix in {".guide", ".query"})


def test_a_kept_guide_is_found_with_the_very_same_pixels(cache):
    fresh = cache.keep(KEY, [guide(0), guide(1)])
    found = cache.find(KEY, [0, 1, 2])
    assert list(found) == [0, 1]
    for number in (0, 1):
        assert np.array_equal(found[number].pixels, fresh[number].pixels)
        assert found[number].cached == "exact" and found[number].guide_id == f"paint/{number}"
        assert found[number].weight == 0.5 and found[number].provenance == fresh[number].provenance
        assert fresh[number].cached is None
    stats = cache.stats()
    assert (stats["hits"], stats["misses"], stats["entries"]) == (2, 1, 2)
    assert stats["hit_rate"] == pytest.approx(2 / 3)


def test_pictures_are_kept_small_and_served_by_their_key(tmp_path):
    cache = GuideCache(tmp_path, limit_bytes=MB, picture_px=32)
    (kept,) = cache.keep(KEY, [guide(side=256)])
    assert kept.pixels.shape == (32, 32, 3)
    assert np.array_equal(pixels_of(cache.picture(kept.provenance[PICTURE_KEY])), kept.pixels)
    for wrong in ("", "../../etc/passwd", "0" * 32 + "-0", kept.provenance[PICTURE_KEY] + "/.."):
        assert cache.picture(wrong) is None


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "a dog"},
        {"engine": "other"},
        {"version": "2"},
        {"model": "x"},
        {"seed": 1},
        {"size": 32},
        {"edit": "e"},
        {"tenant": "e"},
    ],
)
def test_everything_that_changes_a_picture_is_part_of_its_key(cache, change):
    cache.keep(KEY, [guide()])
    assert cache.find(replace(KEY, **change), [0]) == {}


def test_pictures_kept_in_another_size_are_others(cache, tmp_path):
    cache.keep(KEY, [guide()])
    assert GuideCache(tmp_path / "guides", limit_bytes=MB, picture_px=32).find(KEY, [0]) == {}


def test_keys_come_of_what_the_engine_is_and_is_asked():
    one = engine("paint", Drawer(), model="m", options={"steps": 1})
    request = GuideRequest("q", "A  Cat\n", 1, seed=5)
    key = key_of(one, request)
    assert key.prompt == "a cat" and key.seed == 5 and key.size == 32
    assert key == key_of(engine("paint", Drawer(), model="m", options={"steps": 1}), replace(request, prompt="a cat", first=3))
    for other in (engine("paint", Drawer(), model="n", options={"steps": 1}), engine("paint", Drawer(), model="m")):
        assert key_of(other, request) != key
    picture = np.zeros((4, 6, 3), np.uint8)
    edits = [
        PictureEdit(picture, 0.5),
        PictureEdit(picture, 0.6),
        PictureEdit(picture.reshape(6, 4, 3), 0.5),
        PictureEdit(picture + 1, 0.5),
    ]
    keys = [key_of(one, replace(request, edit=edit)) for edit in (None, *edits)]
    assert len({each.digest(picture_px=64) for each in keys}) == len(keys)
    assert key_of(one, replace(request, edit=PictureEdit(picture.copy(), 0.5))) == keys[1]
    assert normalised_prompt("ＣＡＴ  café") == normalised_prompt("cat cafe\u0301")


def test_vectors_are_kept_beside_the_picture_and_added_to(cache):
    (kept,) = cache.keep(KEY, [guide()])
    cache.add_vectors(kept, {"bridge-1": unit(1, 2, 3)})
    cache.add_vectors(kept, {"labels-1": unit(0, 1)})
    vectors = cache.find(KEY, [0])[0].vectors
    assert vectors.keys() == {"bridge-1", "labels-1"}
    assert np.array_equal(vectors["bridge-1"], unit(1, 2, 3)) and vectors["bridge-1"].dtype == np.float32
    before = files(cache)[0].stat().st_mtime_ns
    inode = files(cache)[0].stat().st_ino
    cache.add_vectors(kept, {"labels-1": unit(1, 1)})
    assert files(cache)[0].stat().st_ino == inode and before  # nothing new: not written again
    cache.add_vectors(guide(7), {"labels-1": unit(1, 1)})  # never kept: nothing happens
    assert len(files(cache)) == 1


def test_vectors_added_at_the_same_time_are_all_kept(cache, tmp_path):
    (kept,) = cache.keep(KEY, [guide()])
    others = [GuideCache(tmp_path / "guides", limit_bytes=MB, picture_px=64) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda turn: others[turn % 8].add_vectors(kept, {f"s-{turn}": unit(1, turn)}), range(32)))
    assert cache.find(KEY, [0])[0].vectors.keys() == {f"s-{turn}" for turn in range(32)}


def test_guides_without_pixels_pass_through(cache):
    bare = guide(pixels=None, vectors={"s": unit(1, 0)})
    assert cache.keep(KEY, [bare]) == [bare] and cache.stats()["entries"] == 0


def test_the_longest_unused_make_room_and_the_limit_holds(tmp_path):
    cache = GuideCache(tmp_path, limit_bytes=120_000, picture_px=64)
    for number in range(40):
        cache.keep(KEY, [guide(number)], text_vectors={"minilm": unit(1, number)})
        assert sum(path.stat().st_size for path in files(cache)) <= 120_000
        assert cache.find(KEY, [0])  # used all the time: stays
    left = [number for number in range(40) if cache.find(KEY, [number])]
    assert left[0] == 0 and left[-1] == 39 and 3 < len(left) < 40
    assert left[1:] == list(range(left[1], 40))  # the others went by age
    assert cache.stats()["bytes"] <= 120_000 and cache.stats()["entries"] == len(left)


def test_queries_go_with_their_last_guide(tmp_path):
    cache = GuideCache(tmp_path, limit_bytes=60_000, picture_px=64)
    for number in range(20):
        cache.keep(replace(KEY, prompt=f"p{number}"), [guide(number)], text_vectors={"minilm": unit(1, number)})
    names = [path.name for path in files(cache)]
    guides = {name.partition("-")[0] for name in names if name.endswith(".guide")}
    assert {name.partition(".")[0] for name in names if name.endswith(".query")} == guides


def test_what_is_larger_than_the_whole_cache_is_not_kept_and_counted(tmp_path, caplog):
    cache = GuideCache(tmp_path, limit_bytes=100, picture_px=64)
    (kept,) = cache.keep(KEY, [guide()])
    assert kept.pixels is not None and files(cache) == [] and cache.stats()["failures"] == 1
    assert "could not be kept" in caplog.text


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "array", "astray"])
def test_a_damaged_entry_is_removed_counted_and_drawn_again(cache, damage):
    (kept,) = cache.keep(KEY, [guide()])
    (path,) = files(cache)
    content = path.read_bytes()
    middle = len(content) // 2
    np.save(array := io.BytesIO(), np.zeros(3))  # NumPy reads it, but it holds no names
    path.write_bytes(
        {
            "cut": content[:middle],
            "flipped": content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :],
            "empty": b"",
            "other": b"PK\x03\x04 something else",
            "array": array.getvalue(),
            "astray": content[: content.rfind(b"PK\x05\x06") + 16] + b"\xff\xff\xff\x7f" + content[-2:],
        }[damage]
    )
    assert cache.picture(kept.provenance[PICTURE_KEY]) is None
    assert cache.stats()["corrupt"] == 1 and files(cache) == []
    assert cache.find(KEY, [0]) == {}
    again = cache.keep(KEY, [guide()])
    assert np.array_equal(cache.find(KEY, [0])[0].pixels, again[0].pixels)


def test_a_folder_that_cannot_be_written_costs_the_keeping_only(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    cache = GuideCache(tmp_path / "file" / "guides", limit_bytes=MB)
    (kept,) = cache.keep(KEY, [guide()])
    assert kept.pixels is not None and cache.stats()["failures"] == 1 and "could not be kept" in caplog.text
    assert cache.find(KEY, [0], text_vectors={"minilm": unit(1, 0)}) == {}


# -- semantic hits -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def semantic(tmp_path):
    cache = GuideCache(tmp_path / "guides", limit_bytes=MB, picture_px=64, semantic=0.9)
    cache.keep(KEY, [guide(0), guide(1)], text_vectors={"minilm": unit(1, 0, 0)})
    return cache


def test_guides_of_a_query_that_is_alike_are_used_and_say_whose_they_are(semantic):
    found = semantic.find(replace(KEY, prompt="one kitten"), [0, 1, 2], text_vectors={"minilm": unit(1, 0.1, 0)})
    assert list(found) == [0, 1]
    assert found[0].cached == "semantic" and found[0].guide_id == "paint/0"
    assert found[0].provenance["from_prompt"] == "a cat"
    assert found[0].provenance["similarity"] == pytest.approx(0.995, abs=1e-3)
    assert semantic.stats()["semantic_hits"] == 2 and semantic.stats()["misses"] == 1


@pytest.mark.parametrize(
    ("change", "vectors"),
    [
        ({"prompt": "x"}, {"minilm": unit(1, 1, 0)}),  # not alike enough
        ({"prompt": "x"}, {"other": unit(1, 0, 0)}),  # another encoder's vector says nothing
        ({"prompt": "x"}, {"minilm": unit(1, 0)}),  # nor does one of another dimension
        ({"prompt": "x", "engine": "y"}, {"minilm": unit(1, 0, 0)}),
        ({"prompt": "x", "seed": 1}, {"minilm": unit(1, 0, 0)}),
        ({"prompt": "x", "size": 128}, {"minilm": unit(1, 0, 0)}),
    ],
)
def test_other_engines_encoders_seeds_and_sizes_are_no_semantic_hits(semantic, change, vectors):
    assert semantic.find(replace(KEY, **change), [0], text_vectors=vectors) == {}


def test_the_nearest_query_wins_and_exact_hits_come_first(semantic):
    nearer = replace(KEY, prompt="cats")
    semantic.keep(nearer, [guide(0, seed=9)], text_vectors={"minilm": unit(1, 0.3, 0)})
    found = semantic.find(replace(KEY, prompt="kitten"), [0, 1], text_vectors={"minilm": unit(1, 0.28, 0)})
    assert found[0].provenance["from_prompt"] == "cats" and found[1].provenance["from_prompt"] == "a cat"
    assert semantic.find(nearer, [0], text_vectors={"minilm": unit(1, 0, 0)})[0].cached == "exact"


def test_without_a_threshold_nothing_is_alike(semantic, tmp_path):
    plain = GuideCache(tmp_path / "guides", limit_bytes=MB, picture_px=64)
    assert plain.find(replace(KEY, prompt="x"), [0], text_vectors={"minilm": unit(1, 0, 0)}) == {}


def test_another_process_s_queries_are_noticed(semantic, tmp_path):
    other = GuideCache(tmp_path / "guides", limit_bytes=MB, picture_px=64, semantic=0.9)
    wanted = {"minilm": unit(0, 0, 1)}
    assert other.find(replace(KEY, prompt="x"), [0], text_vectors=wanted) == {}
    time.sleep(0.02)  # the folder's time of change has the resolution of a clock tick
    semantic.keep(replace(KEY, prompt="sea"), [guide(0, seed=3)], text_vectors=wanted)
    assert other.find(replace(KEY, prompt="x"), [0], text_vectors=wanted)[0].provenance["from_prompt"] == "sea"


# -- processes -----------------------------------------------------------------------------------------------------------------


SMALL = 60_000  # about six guides: every one that is kept has to make room


def _keep_many(folder, seed, count):
    cache = GuideCache(folder, limit_bytes=SMALL, picture_px=64)
    largest = 0
    for number in range(count):
        (kept,) = cache.keep(replace(KEY, seed=seed), [guide(number, seed=seed)], text_vectors={"minilm": unit(1, number)})
        cache.add_vectors(kept, {f"s-{seed}": unit(1, number, 2)})
        cache.find(replace(KEY, seed=1 - seed), [number])
        largest = max(largest, _bytes_in(folder))
    assert cache.stats()["corrupt"] == cache.stats()["failures"] == 0, cache.stats()
    assert largest <= SMALL, largest


def _bytes_in(folder):
    with FileLock(folder / "lock"):  # as whoever adds to it
        return sum(path.stat().st_size for path in folder.iterdir() if path.suffix in {".guide", ".query"})


def test_processes_share_a_folder_and_its_limit(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_keep_many, args=(tmp_path, seed, 60)) for seed in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(240)
    assert [worker.exitcode for worker in workers] == [0, 0]
    cache = GuideCache(tmp_path, limit_bytes=SMALL, picture_px=64)
    assert _bytes_in(tmp_path) <= SMALL
    found = {seed: cache.find(replace(KEY, seed=seed), range(60)) for seed in (0, 1)}
    assert len(found[0]) + len(found[1]) >= 3 and cache.stats()["corrupt"] == 0
    assert all(f"s-{seed}" in one.vectors for seed in (0, 1) for one in found[seed].values())


def _keep_forever(folder):
    cache = GuideCache(folder, limit_bytes=50 * MB, picture_px=64)
    for number in range(10**6):
        cache.keep(KEY, [guide(number % 50)])


def test_a_killed_process_leaves_nothing_half(tmp_path):
    worker = multiprocessing.get_context("spawn").Process(target=_keep_forever, args=(tmp_path,))
    worker.start()
    cache = GuideCache(tmp_path, limit_bytes=50 * MB, picture_px=64)
    while len(list(tmp_path.glob("*.guide"))) < 20:
        time.sleep(0.02)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    assert len(cache.find(KEY, range(50))) >= 20 and cache.stats()["corrupt"] == 0
    assert cache.keep(KEY, [guide(60)]) and cache.find(KEY, [60])  # the lock went with the process
    leftover = tmp_path / ".writing-old"
    leftover.write_bytes(b"half")
    os.utime(leftover, (0, 0))
    cache.keep(KEY, [guide(61)])
    assert not leftover.exists()


# -- in the hub ----------------------------------------------------------------------------------------------------------------


async def test_the_hub_asks_only_for_what_is_not_kept(cache):
    observer, drawer = Recorder(), Drawer()
    hub = hub_of(engine("paint", drawer, cost=1.0), cache=cache, observer=observer)
    first = await drawn(hub, n=2)
    assert [guide.cached for guide in first] == [None, None] and observer.cached == ["miss", "miss"]
    again = await drawn(hub, n=4, budget=2.0)
    assert [(request.first, request.n) for request in drawer.asked] == [(0, 2), (2, 2)]
    kept = [guide for guide in again if guide.cached]
    assert ids(kept) == ["paint/0", "paint/1"] and {guide.cost for guide in kept} == {0.0}
    for one, other in zip(first, sorted(kept, key=lambda guide: guide.guide_id), strict=True):
        assert np.array_equal(one.pixels, other.pixels)
    assert hub.status().cache["hits"] == 2


async def test_kept_guides_need_no_engine_and_no_money(cache):
    from lodestone.errors import ServiceUnavailableError

    drawer = Drawer()
    hub = hub_of(engine("paint", drawer, cost=1.0, breaker_failures=1), cache=cache)
    await drawn(hub, n=2)
    drawer.error = ServiceUnavailableError("down")
    await drawn(hub, n=2, query="another")
    assert hub.status().engines[0].breaker == "open"
    assert [guide.cached for guide in await drawn(hub, n=2, budget=0.0)] == ["exact", "exact"]


async def test_an_engine_whose_version_cannot_be_told_gives_its_guides_unkept(cache):
    class Lost(Drawer):
        @property
        def version(self):
            raise OSError("no such model")

    log, hub = QueryNotes(), hub_of(engine("lost", Lost()), cache=cache)
    assert ids(await drawn(hub, n=2, log=log)) == ["lost/0", "lost/1"]
    assert "no such model" in log.warnings[0] and hub.status().engines[0].version == ""


async def test_vectors_come_back_with_the_guide(cache):
    hub = hub_of(engine("paint", Drawer()), cache=cache)
    (fresh,) = await drawn(hub, n=1)
    hub.keep_vectors(fresh, {"bridge-1": unit(1, 2)})
    (found,) = await drawn(hub, n=1)
    assert np.array_equal(found.vectors["bridge-1"], unit(1, 2))


async def test_engines_whose_guides_depend_on_the_collection_are_not_kept(cache):
    uncacheable = Drawer()
    uncacheable.cacheable = False
    hub = hub_of(engine("vectors", Drawer(pixels=False)), engine("mixed", uncacheable), cache=cache)
    await drawn(hub, n=4)
    assert cache.stats()["entries"] == 0


def test_guides_made_of_pictures_can_be_removed_and_drawn_ones_stay(cache, tmp_path):
    edited = replace(KEY, edit="a digest of somebody's picture")
    cache.keep(KEY, [guide(0)])
    cache.keep(edited, [guide(0, seed=5), guide(1, seed=6)])
    folder = files(cache)[0].parent
    (folder / f"{'0' * 32}-7.guide").write_bytes(b"an entry of an older version, or a damaged one")
    assert remove_edited(folder) == 3
    assert remove_edited(folder) == 0
    assert list(cache.find(KEY, [0])) == [0]
    assert cache.find(edited, [0, 1]) == {}
    assert remove_edited(tmp_path / "nowhere") == 0
