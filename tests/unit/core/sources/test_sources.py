"""Sources beside folders: what their listings give, what their locators read, and what they say when something is wrong."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.archives import tar_bytes, write_tar
from tests.support.pictures import jpeg_bytes
from tests.support.s3_server import S3Server, s3_server

from lodestone.catalog.records import Container, Root
from lodestone.errors import ImageError, InvalidRequestError, ManifestChangedError, SourceError
from lodestone.files.filesystems import FileSystems
from lodestone.files.tokens import hash_bytes
from lodestone.files.urls import Url
from lodestone.sources.base import FoundFile, UnreadablePath
from lodestone.sources.containers import ContainerSource
from lodestone.sources.locate import Named, locate, source_of, together
from lodestone.sources.locators import locator_of, target_of
from lodestone.sources.patterns import Pattern
from lodestone.sources.reading import Reader

PICTURES = {f"{i:03}": jpeg_bytes((40, 30), seed=i) for i in range(5)}


@pytest.fixture
def s3():
    with s3_server("photos") as server:
        yield server


def listed(named: Named, troubles: list[UnreadablePath] | None = None) -> dict[str, FoundFile]:
    source = source_of(named, FileSystems())
    return {found.uri: found for found in source.items((troubles if troubles is not None else []).append)}


def read(found: FoundFile, reader: Reader | None = None) -> bytes:
    reader = reader or Reader()
    (content,) = reader.identify([found])
    assert isinstance(content, str), content
    data = reader.read(found.locator, content=content, size=found.size, mtime_ns=found.mtime_ns)
    return data if isinstance(data, bytes) else data.read()


# Object stores


def test_bucket_is_listed_without_reading_an_object_and_read_by_locators_elsewhere(s3: S3Server) -> None:
    s3.put(
        "photos", {"in/a.jpg": PICTURES["000"], "in/sub/100% b?#ü.JPG": PICTURES["001"], "in/.x/c.jpg": b"", "in/n.txt": b"n"}
    )
    named = locate(s3.url("photos/in"))
    assert named.kind == "object"
    found = listed(named)
    assert sorted(found) == ["a.jpg", "sub/100% b?#ü.JPG"]
    assert not [path for method, path, _ in s3.requests if method == "GET" and path.endswith((".jpg", ".JPG"))]
    reader = pickle.loads(pickle.dumps(Reader()))
    assert read(found["sub/100% b?#ü.JPG"], reader) == PICTURES["001"]
    root = Root("r", "c", "in", named.root_path, kind="object")
    assert locator_of(root, "sub/100% b?#ü.JPG") == found["sub/100% b?#ü.JPG"].locator


def test_flat_level_is_listed_page_by_page_and_told_versions_need_no_request_for_each(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodestone.files.s3._NAMES", 10)
    s3.put("photos", {f"in/{i:04}.jpg": b"%d" % i for i in range(45)} | {"in/deep/x.jpg": b"x", "in/deep/er/y.jpg": b"y"})
    s3.requests.clear()
    stream = source_of(Named("object", s3.url("photos/in")), FileSystems()).items(print)
    first = next(stream)
    assert len(s3.requests) <= 2  # the first page, and perhaps the one that is fetched while it is gone through
    rest = list(stream)
    assert {first.uri, *(one.uri for one in rest)} == {f"{i:04}.jpg" for i in range(45)} | {"deep/x.jpg", "deep/er/y.jpg"}
    s3.requests.clear()
    told = list(Reader().identify([first, *rest]))
    assert s3.requests == []
    asked = list(Reader().identify([replace(one, token="") for one in (first, *rest[:3])]))
    assert told[:4] == asked


def test_options_that_pyarrow_alone_knows_list_the_same(s3: S3Server) -> None:
    s3.put("photos", dict.fromkeys(("in/a.jpg", "in/b c/d.jpg", "in/.h/e.jpg", "in/@eaDir/f.jpg", "in/g/h/i.jpg"), b"x"))
    by_page = listed(locate(s3.url("photos/in")))
    whole = listed(locate(s3.url("photos/in") + "&background_writes=1"))
    assert {uri: (one.size, one.mtime_ns) for uri, one in whole.items()} == {
        uri: (one.size, one.mtime_ns) for uri, one in by_page.items()
    }
    assert sorted(by_page) == ["a.jpg", "b c/d.jpg", "g/h/i.jpg"]
    assert sorted(listed(locate(s3.url("photos/in/*/*.jpg")))) == ["b c/d.jpg"]


def test_profile_that_is_not_there_is_said_to_be_a_matter_of_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody-s")
    with pytest.raises(SourceError, match=r"credentials are expired or not valid .*nobody-s"):
        locate("s3://photos/in?endpoint_override=127.0.0.1:1&scheme=http")


@pytest.mark.parametrize("option", ["", "&background_writes=1"])
def test_keys_with_two_slashes_are_reported_once_and_end_nothing(s3: S3Server, option: str) -> None:
    odd = ["in/😀.jpg", "in/שלום.jpg", "in/x%2Fy.jpg", "in/q?.jpg", "in/h#.jpg", "in/a+b &amp;.jpg", "in/bell\x01.jpg"]
    s3.put("photos", dict.fromkeys((*odd, "in/c.jpg/", "in//b.jpg", "in/deep//z/y.jpg", "in/deep//w.jpg"), b"x"))
    troubles: list[UnreadablePath] = []
    found = listed(locate(s3.url("photos/in") + option), troubles)
    assert sorted(found) == sorted(name.removeprefix("in/") for name in odd)
    assert all(read(one) == b"x" for one in found.values())
    assert sorted({one.uri for one in troubles}) == ["/", "deep//"]
    assert all("two slashes" in one.message for one in troubles)


def test_token_follows_an_object_that_is_moved_and_changes_with_its_content(s3: S3Server) -> None:
    s3.put("photos", {"a.jpg": PICTURES["000"], "b/c.jpg": PICTURES["000"], "d.jpg": PICTURES["001"]})
    found = listed(locate(s3.url("photos")))
    tokens = dict(zip(found, Reader().identify(list(found.values())), strict=True))
    assert tokens["a.jpg"] == tokens["b/c.jpg"] != tokens["d.jpg"]
    assert all(len(str(token)) == 64 for token in tokens.values())


def test_object_replaced_since_it_was_listed_is_not_taken_for_the_planned_one(s3: S3Server) -> None:
    s3.put("photos", {"a.jpg": PICTURES["000"]})
    found = listed(locate(s3.url("photos")))["a.jpg"]
    (content,) = Reader().identify([found])
    s3.put("photos", {"a.jpg": PICTURES["001"]})
    with pytest.raises(ImageError) as error:
        Reader().read(found.locator, content=str(content), size=found.size, mtime_ns=found.mtime_ns)
    assert error.value.details["reason"] == "file_changed"


def test_denied_and_missing_objects_cost_one_picture_each_and_expired_credentials_end_the_work(s3: S3Server) -> None:
    s3.put("photos", {"a.jpg": PICTURES["000"], "b.jpg": PICTURES["001"]})
    found = listed(locate(s3.url("photos")))
    s3.deny = lambda _method, key: key == "a.jpg"
    untold = [replace(found[name], token="") for name in ("a.jpg", "b.jpg")]  # as by stores whose listings tell no version
    denied, fine = Reader().identify(untold)
    assert isinstance(denied, ImageError)
    assert denied.details["reason"] == "denied"
    assert isinstance(fine, str)
    s3.client.delete_object(Bucket="photos", Key="b.jpg")
    with pytest.raises(ImageError) as missing:
        Reader().read(found["b.jpg"].locator, content=fine, size=1, mtime_ns=0)
    assert missing.value.details["reason"] == "missing"
    s3.lives = 0
    with pytest.raises(SourceError, match="expired") as expired:
        Reader().read(found["b.jpg"].locator, content=fine, size=1, mtime_ns=0)
    assert expired.value.details["reason"] == "expired"
    assert "testing-secret" not in f"{expired.value} {expired.value.hint} {expired.value.details}"


def test_a_place_that_is_not_there_or_cannot_be_listed_is_named(s3: S3Server) -> None:
    with pytest.raises(SourceError, match="photos/nothing"):
        locate(s3.url("photos/nothing"))
    with pytest.raises(SourceError, match="nobucket/x cannot be listed: the bucket does not exist"):
        locate(s3.url("nobucket/x"))
    s3.lives = 0
    with pytest.raises(SourceError, match="expired"):
        locate(s3.url("photos"))


@pytest.mark.parametrize("text", ["s3://key:secret@bucket/x", "s3://bucket/x?secret_key=hush", "ftp://me:secret@host/x"])
def test_urls_with_credentials_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="credentials") as error:
        locate(text)
    assert "secret" not in str(error.value).replace("secret_key", "")
    assert "hush" not in str(error.value)


def test_urls_are_written_down_so_that_they_mean_one_thing() -> None:
    typed = Url.typed("s3://bucket/100%/a b#c?region=eu-west-1")
    assert (typed.key, typed.query) == ("100%/a b#c", "region=eu-west-1")
    assert Url.stored(str(typed.join("what?.jpg"))) == typed.join("what?.jpg")
    assert typed.join("x/y").below(typed) == "x/y"
    assert Url.typed("s3://bucket/photos2").below(Url.typed("s3://bucket/photos")) is None


def test_any_file_system_of_fsspec_serves() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe({"/pile/a.jpg": PICTURES["000"], "/pile/b/c.jpg": PICTURES["001"]})
    try:
        found = listed(locate("memory://pile"))
        assert sorted(found) == ["a.jpg", "b/c.jpg"]
        assert read(found["b/c.jpg"]) == PICTURES["001"]
    finally:
        memory.rm("/pile", recursive=True)


# Archives


def test_tar_gives_pictures_with_their_captions_and_offsets(tmp_path: Path) -> None:
    members = {
        "000.txt": b"a red boat\n",
        "000.jpg": PICTURES["000"],
        "000.json": b"{}",
        "deep/001.jpg": PICTURES["001"],
        "x.cls": b"1",
    }
    write_tar(tmp_path / "shards" / "s-0.tar", members)
    named = locate(tmp_path / "shards" / "s-0.tar")
    found = listed(named)
    assert sorted(found) == ["s-0.tar/000.jpg", "s-0.tar/deep/001.jpg"]
    assert found["s-0.tar/000.jpg"].captions == ("a red boat",)
    assert found["s-0.tar/000.jpg"].token == hash_bytes(PICTURES["000"])
    assert read(found["s-0.tar/deep/001.jpg"]) == PICTURES["001"]
    root = Root("r", "c", "shards", named.root_path, kind="tar")
    one = found["s-0.tar/deep/001.jpg"]
    assert locator_of(root, one.uri, one.position) == one.locator


def test_tars_of_a_bucket_are_read_by_ranges(s3: S3Server) -> None:
    s3.put(
        "photos",
        {"w/s-000.tar": tar_bytes({"a.jpg": PICTURES["000"], "b.jpg": PICTURES["001"]}), "w/s-001.tar": b"", "w/x.tar": b""},
    )
    found = listed(locate(s3.url("photos/w/s-{000..000}.tar")))
    assert sorted(found) == ["s-000.tar/a.jpg", "s-000.tar/b.jpg"]
    assert read(found["s-000.tar/b.jpg"]) == PICTURES["001"]
    assert locate(s3.url("photos/w")).kind == "tar"


def test_truncated_and_compressed_archives_are_reported_and_what_came_before_is_kept(tmp_path: Path) -> None:
    whole = tar_bytes({f"{name}.jpg": content for name, content in PICTURES.items()})
    (tmp_path / "cut.tar").write_bytes(whole[:5_000])
    (tmp_path / "not.tar").write_bytes(b"no tar at all" * 100)
    troubles: list[UnreadablePath] = []
    source = ContainerSource(str(tmp_path), "tar", FileSystems())
    found = [one.uri for one in source.items(troubles.append)]
    assert found[:2] == ["cut.tar/000.jpg", "cut.tar/001.jpg"]
    assert [(one.uri, one.code) for one in troubles] == [("cut.tar", "truncated"), ("not.tar", "corrupt")]
    assert source.settled.keeps("cut.tar/004.jpg")
    assert not source.settled.keeps("other.tar/004.jpg")
    with pytest.raises(InvalidRequestError, match="compressed"):
        locate(tmp_path / "x.tar.gz")


def test_archive_edited_between_listing_and_reading_ends_the_run_and_not_one_picture(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "s.tar", {"a.jpg": PICTURES["000"], "b.jpg": PICTURES["001"]})
    found = listed(locate(path))["s.tar/b.jpg"]
    write_tar(path, {"b.jpg": PICTURES["002"]})
    os.utime(path, ns=(1, found.mtime_ns + 1))
    with pytest.raises(ManifestChangedError, match=r"s\.tar"):
        read(found)


def test_unchanged_archive_is_not_read_again_and_a_changed_one_is(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "s.tar", {"a.jpg": PICTURES["000"]})
    first = ContainerSource(str(tmp_path), "tar", FileSystems())
    assert len(list(first.items(print))) == 1
    known = {one.uri: one for one in first.settled.listed}
    assert known == {"s.tar": Container("", "s.tar", known["s.tar"].token, 1)}
    again = ContainerSource(str(tmp_path), "tar", FileSystems(), known=known)
    assert list(again.items(print)) == []
    assert again.settled.keeps("s.tar/a.jpg")
    os.utime(path, ns=(1, 1))
    assert len(list(ContainerSource(str(tmp_path), "tar", FileSystems(), known=known).items(print))) == 1


def test_a_name_that_an_archive_repeats_is_listed_once_however_many_lie_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodestone.sources.digests._RECENT", 4)
    names = [f"{i % 13:02}.jpg" for i in range(40)]
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        for number, name in enumerate(names):
            member = tarfile.TarInfo(name)
            member.size = 2
            archive.addfile(member, io.BytesIO(b"%02d" % number))
    found = list(source_of(locate(tmp_path / "s.tar"), FileSystems()).items(print))
    assert [one.uri for one in found] == [f"s.tar/{i:02}.jpg" for i in range(13)]
    assert [read(one) for one in found] == [b"%02d" % i for i in range(13)]


# Tables


def test_table_of_bytes_is_read_by_row_in_any_order_from_several_threads(tmp_path: Path) -> None:
    many = [jpeg_bytes((16, 12), seed=i) for i in range(90)]
    table = pa.table(
        {"image": pa.array([{"bytes": data, "path": f"p/{i}.jpg"} for i, data in enumerate(many)]), "caption": ["c"] * 90}
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=40)
    found = list(listed(locate(tmp_path / "t.parquet")).values())
    assert [one.uri for one in found[:2]] == ["t.parquet/000000000-0.jpg", "t.parquet/000000001-1.jpg"]
    assert found[0].captions == ("c",)
    reader = Reader()
    for row in (0, 1, 35, 36, 89, 3, 50, 2, 45):
        assert read(found[row], reader) == many[row]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda one: read(one, reader), found)) == many


def test_table_of_uris_points_at_files_beside_it_at_urls_and_says_what_is_missing(s3: S3Server, tmp_path: Path) -> None:
    s3.put("photos", {"far.jpg": PICTURES["001"]})
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "a.jpg").write_bytes(PICTURES["000"])
    rows = ["near/a.jpg", s3.url("photos/far.jpg"), "near/gone.jpg", None, s3.url("photos/gone.jpg")]
    pq.write_table(pa.table({"uri": rows, "text": ["x", "y", "z", None, None]}), tmp_path / "t.parquet")
    troubles: list[UnreadablePath] = []
    named = locate(tmp_path / "t.parquet")
    found = listed(named, troubles)
    assert [read(one) for one in found.values()] == [PICTURES["000"], PICTURES["001"]]
    assert [(one.uri, one.code) for one in troubles] == [
        ("t.parquet/near/gone.jpg", "missing"),
        ("t.parquet/000000003", "missing"),
        (f"t.parquet/{s3.url('photos/gone.jpg')}", "missing"),
    ]
    root = Root("r", "c", "t", named.root_path, kind="table")
    assert {locator_of(root, uri) for uri in found} == {one.locator for one in found.values()}


def test_table_in_a_bucket_names_objects_beside_it(s3: S3Server) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"file_name": ["img/a.jpg"]}), buffer)
    s3.put("photos", {"set/t.parquet": buffer.getvalue(), "set/img/a.jpg": PICTURES["000"]})
    (found,) = listed(locate(s3.url("photos/set/t.parquet"))).values()
    assert read(found) == PICTURES["000"]


def test_table_without_pictures_or_cut_short_says_so(tmp_path: Path) -> None:
    pq.write_table(pa.table({"weight": [1.0]}), tmp_path / "w.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "w.parquet").read_bytes()[:-9])
    troubles: list[UnreadablePath] = []
    assert listed(Named("table", str(tmp_path)), troubles) == {}
    assert [(one.uri, one.code) for one in troubles] == [("cut.parquet", "corrupt"), ("w.parquet", "no_pictures")]
    assert "weight (double)" in troubles[1].message


def test_table_rewritten_while_it_is_listed_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [PICTURES["000"]] * 3}), tmp_path / "t.parquet")
    items = ContainerSource(str(tmp_path), "table", FileSystems()).items(print)
    next(items)
    os.utime(tmp_path / "t.parquet", ns=(1, 1))
    with pytest.raises(ManifestChangedError, match=r"t\.parquet"):
        list(items)


def test_lance_table_is_listed_and_read(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    lance.write_dataset(
        pa.table({"image": list(PICTURES.values()), "name": [f"{n}.jpg" for n in PICTURES]}), str(tmp_path / "t.lance")
    )
    named = locate(tmp_path / "t.lance")
    assert named == locate(tmp_path / "t.lance" / ".." / "t.lance")
    found = list(listed(named).values())
    assert [read(one) for one in found] == list(PICTURES.values())


# What a text names


def test_folder_is_pictures_or_else_what_it_holds(tmp_path: Path) -> None:
    write_tar(tmp_path / "tars" / "a.tar", {})
    (tmp_path / "tables.parquet").mkdir()
    (tmp_path / "tables.parquet" / "part-0.parquet").write_bytes(b"")
    (tmp_path / "both").mkdir()
    for name in ("x.jpg", "y.tar"):
        (tmp_path / "both" / name).write_bytes(b"")
    kinds = [locate(tmp_path / name).kind for name in ("tars", "tables.parquet", "both", "nowhere")]
    assert kinds == ["tar", "table", "folder", "folder"]


def test_patterns_and_names_of_one_folder_are_one_source(tmp_path: Path) -> None:
    for name in ("s-0.tar", "s-1.tar", "t.tar", "deep/s-2.tar"):
        write_tar(tmp_path / name, {f"{Path(name).stem}.jpg": PICTURES["000"]})
    assert sorted(listed(locate(tmp_path / "s-*.tar"))) == ["s-0.tar/s-0.jpg", "s-1.tar/s-1.jpg"]
    assert len(listed(locate(tmp_path / "**" / "*.tar"))) == 4
    (one,) = together([locate(tmp_path / "s-1.tar"), locate(tmp_path / "t.tar")])
    assert sorted(listed(one)) == ["s-1.tar/s-1.jpg", "t.tar/t.jpg"]
    assert locate(locate(tmp_path / "t.tar").root_path) == Named("tar", str(tmp_path))


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("", "anything/x.tar", True),
        ("s-{000..002}.tar", "s-001.tar", True),
        ("s-{000..002}.tar", "s-003.tar", False),
        ("{a,b}.tar", "b.tar", True),
        ("*.tar", "deep/x.tar", False),
        ("**/*.tar", "deep/x.tar", True),
        ("s[0-3].tar", "s2.tar", True),
        ("[!s]*.tar", "s2.tar", False),
        ("../*.tar", "x.tar", False),
        ("../*.tar", "../x.tar", True),
        ("/etc/*", "etc/passwd", False),
        ("a\\*.tar", "a\\b.tar", True),
        ("x{y.tar", "x{y.tar", True),
        ("***/x.tar", "a/b/x.tar", True),
        ("***/x.tar", "x.tar", False),
        ("**/**/**/x.tar", "x.tar", True),
    ],
)
def test_patterns(pattern: str, name: str, matches: bool) -> None:
    assert Pattern(pattern).matches(name) is matches


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("{a,b}" * 40, "a" * 39 + "c"),
        ("{000..999}/{000..999}/{000..999}.tar", "000/000/1000.tar"),
        ("*" * 80 + "b", "a" * 100),
        ("**/" * 40 + "b", "a/" * 100 + "c"),
    ],
)
def test_patterns_that_mean_harm_take_no_time(pattern: str, name: str) -> None:
    assert not Pattern(pattern).matches(name)


def test_ranges_without_end_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="100,000"):
        Pattern("{0..999999999}")


# Names and rows that mean harm, or nothing


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKIA:hush@bucket/a.jpg",
        "s3://AKIA:hu/hush@bucket/a.jpg",
        "s3://bucket/a?secret_access_key=hush",
        "abfs://box@account/a?sas_token=hush",
        "s3://bucket/a?endpoint_override=http://me:hush@host",
        "https://me:hush@host/a.jpg",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="holds credentials") as caught:
        Url.typed(text)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("text", ["s3://bucket/a:b@c.jpg", "http://host:9000/a@b.jpg", "abfs://box@account/a.jpg"])
def test_signs_of_credentials_in_names_are_no_credentials(text: str) -> None:
    assert str(Url.typed(text)) == text


def test_a_row_that_names_nonsense_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "good.jpg").write_bytes(PICTURES["000"])
    os.mkfifo(tmp_path / "pipe.jpg")
    bad = [
        "pipe.jpg",
        "/dev/zero",
        ".",
        "a\0b.jpg",
        "s3://AKIA:hu/hush@bucket/a.jpg",
        "file://tar:0:/etc/passwd",
        "nothing://x/y.jpg",
        "x" * 5000,
        "https://[::1/a",
    ]
    pq.write_table(pa.table({"uri": [*bad, "good.jpg"]}), tmp_path / "rows.parquet")
    troubles: list[UnreadablePath] = []
    assert list(listed(locate(tmp_path / "rows.parquet"), troubles)) == ["rows.parquet/good.jpg"]
    assert len(troubles) == len(bad)
    assert "hush" not in str(troubles)


@pytest.mark.parametrize(
    "row", ["/secret.jpg", "file:///secret.jpg", "FILE:///secret.jpg", "local://x/secret.jpg", "zip://a?fo=/b"]
)
def test_a_table_from_elsewhere_may_not_point_at_files_of_this_machine(row: str) -> None:
    with pytest.raises(InvalidRequestError, match="may not point at files of this machine"):
        target_of("s3://bucket/list.parquet", row)
    assert target_of("s3://bucket/list.parquet", "https://host/a.jpg") == "https://host/a.jpg"
    assert target_of("s3://bucket/in/list.parquet", "a.jpg") == "s3://bucket/in/a.jpg"


def test_folders_called_like_archives_do_not_hide_which_archive_is_meant(tmp_path: Path) -> None:
    members = {"inner.tar/a.jpg": PICTURES["000"], "../../b.jpg": PICTURES["001"], "c.jpg": PICTURES["002"]}
    for place in ("one.tar", "called.tar/inside/two.tar", "bad\udcff.tar"):
        write_tar(tmp_path / place, members)
    named = locate(tmp_path)
    found = listed(named)
    assert len(found) == 9
    root = Root("r", "c", "r", named.root_path, kind="tar")
    reader = Reader()
    for uri, file in found.items():
        uri.encode()
        assert locator_of(root, uri, file.position) == file.locator
        assert read(file, reader) == next(data for name, data in members.items() if uri.endswith(name.rsplit("/")[-1]))
    source = ContainerSource(named.base, "tar", FileSystems(), pattern=Pattern("called.tar/**"))
    assert [source.covers(uri) for uri in sorted(found)] == ["two.tar" in uri for uri in sorted(found)]


def test_links_in_a_circle_list_each_archive_once(tmp_path: Path) -> None:
    write_tar(tmp_path / "in/one.tar", {"a.jpg": PICTURES["000"]})
    (tmp_path / "in/again").symlink_to(tmp_path)
    (tmp_path / "also").symlink_to(tmp_path)
    assert len(listed(locate(tmp_path))) == 1
