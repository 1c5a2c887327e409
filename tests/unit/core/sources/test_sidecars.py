"""Sidecars: which files belong to a picture, what is read from them, and what is refused and listed."""

import json

import pytest
from tests.support.pictures import xmp_packet

from lodestone.sources.sidecars import FolderSidecars, SidecarReader, read_sidecars


def _texts(folder, name):
    return [caption.text for caption in read_sidecars(folder / name)]


@pytest.mark.parametrize(
    ("picture", "sidecar"),
    [
        ("b.jpg", "b.txt"),
        ("b.jpg", "b.jpg.txt"),
        ("b.jpg", "B.TXT"),
        ("b.JPG", "b.jpg.Txt"),
        ("Köln.jpg", "Ko\u0308ln.txt"),
        ("b.jpg", "b.xmp"),
        ("b.jpg", "b.jpg.XMP"),
        ("b.jpg", "b.jpg.json"),
        ("b.jpg", "b.jpg.supplemental-metadata.json"),
        ("b.jpg", "b.jpg.supplemental-me.json"),
        ("a-name-of-thirty-four-characters.jpg", "a-name-of-thirty-four-characters.jpg.supplemental-metadata.json"),
        ("a-name-of-thirty-four-characters.jpg", "a-name-of-thirty-four-characters.jpg.supplemental-met.json"),
        ("b.jpg", "b.jpg.s.json"),
        ("b(1).jpg", "b.jpg(1).json"),
        ("b(1).jpg", "b.jpg.supplemental-metadata(1).json"),
        ("b-edited.jpg", "b.jpg.json"),
        ("a" * 50 + ".jpg", "a" * 46 + ".json"),
        ("a" * 40 + ".jpg", "a" * 40 + ".jpg.s.json"),
    ],
)
def test_a_sidecar_belongs_to_its_picture(tmp_path, picture, sidecar):
    content = {"txt": "ours", "xmp": xmp_packet(description="ours").decode(), "json": json.dumps({"description": "ours"})}
    (tmp_path / sidecar).write_text(content[sidecar.rsplit(".", 1)[1].lower()], encoding="utf-8")
    assert _texts(tmp_path, picture) == ["ours"]


@pytest.mark.parametrize(
    ("picture", "sidecar"),
    [
        ("b.jpg", "bb.txt"),
        ("b.jpg", "b.json"),
        ("b.jpg", "b.jpg(1).json"),
        ("b(1).jpg", "b.jpg.json"),
        ("b.jpg", "b.jpg.meta.json"),
    ],
)
def test_a_neighbour_has_its_own(tmp_path, picture, sidecar):
    (tmp_path / sidecar).write_text('{"description": "theirs"}')
    assert _texts(tmp_path, picture) == []


def test_texts_come_before_xmp_and_json_and_each_text_once(tmp_path):
    (tmp_path / "b.jpg.json").write_text(json.dumps({"title": "b.jpg", "description": "from takeout\ntwo lines"}))
    (tmp_path / "b.xmp").write_bytes(
        xmp_packet(description="from xmp", body="<dc:subject><rdf:Bag><rdf:li>lake</rdf:li></rdf:Bag></dc:subject>")
    )
    (tmp_path / "b.txt").write_text("from a text\nfrom xmp\n")
    assert _texts(tmp_path, "b.jpg") == ["from a text", "from xmp", "lake", "from takeout", "two lines"]


def test_what_is_no_text_is_left_out_and_listed(tmp_path):
    reader = SidecarReader()
    (tmp_path / "a.txt").write_bytes(bytes(range(1, 256)))
    (tmp_path / "b.jpg.json").write_text("{")
    (tmp_path / "c.txt").write_bytes("pü".encode("mac_roman"))
    assert [reader.read(tmp_path / f"{name}.jpg").captions for name in "ab"] == [(), ()]
    assert [caption.text for caption in reader.read(tmp_path / "c.jpg").captions] == ["pü"]
    assert reader.unreadable == [str(tmp_path / "a.txt"), str(tmp_path / "b.jpg.json")]


@pytest.mark.parametrize("content", ["[]", "3", "{}", '{"description": 3}', '{"description": ""}', '{"description": "b.jpg"}'])
def test_other_json_says_nothing(tmp_path, content):
    (tmp_path / "b.jpg.json").write_text(content)
    assert _texts(tmp_path, "b.jpg") == []


def test_a_folder_without_sidecars_or_that_is_gone_has_none(tmp_path):
    (tmp_path / "b.jpg").write_bytes(b"")
    assert list(FolderSidecars.of(str(tmp_path)).beside("b.jpg")) == []
    assert list(FolderSidecars.of(str(tmp_path / "gone")).beside("b.jpg")) == []


def _beside(folder, name="b.jpg"):
    return SidecarReader().read(folder / name)


def test_takeout_says_when_and_where(tmp_path):
    place = {"latitude": 30.6, "longitude": -104}
    facts = {"description": "", "photoTakenTime": {"timestamp": "1258375918"}, "geoData": place}
    (tmp_path / "b.jpg.json").write_text(json.dumps(facts))
    beside = _beside(tmp_path)
    assert (beside.date.taken_at, beside.date.offset, beside.date.source) == (1_258_375_918, None, "sidecar")
    assert (beside.place, beside.captions) == ((30.6, -104.0), ())


@pytest.mark.parametrize("seconds", ["0", "soon", "99999999999999", None, True, 1.5, "253402300800", "4102444800"])
def test_a_time_that_takeout_does_not_know_is_none(tmp_path, seconds):
    (tmp_path / "b.jpg.json").write_text(json.dumps({"photoTakenTime": {"timestamp": seconds}}))
    assert _beside(tmp_path).date is None


@pytest.mark.parametrize("place", [(0, 0), (90.1, 5), (5, -180.1), ("a", 5), (None, 5), (float("nan"), 1)])
def test_a_place_that_takeout_does_not_know_is_none(tmp_path, place):
    (tmp_path / "b.jpg.json").write_text(json.dumps({"geoData": dict(zip(("latitude", "longitude"), place, strict=True))}))
    assert _beside(tmp_path).place is None


def test_the_date_of_an_xmp_file_may_be_partial(tmp_path):
    (tmp_path / "b.xmp").write_bytes(xmp_packet(body="<photoshop:DateCreated>1975-08</photoshop:DateCreated>"))
    date = _beside(tmp_path).date
    assert (date.local.isoformat(), date.precision, date.source) == ("1975-08-01T00:00:00", "month", "sidecar")
