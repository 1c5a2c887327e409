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
    assert [reader.captions(tmp_path / f"{name}.jpg") for name in "ab"] == [(), ()]
    assert [caption.text for caption in reader.captions(tmp_path / "c.jpg")] == ["pü"]
    assert reader.unreadable == [str(tmp_path / "a.txt"), str(tmp_path / "b.jpg.json")]


@pytest.mark.parametrize("content", ["[]", "3", "{}", '{"description": 3}', '{"description": ""}', '{"description": "b.jpg"}'])
def test_other_json_says_nothing(tmp_path, content):
    (tmp_path / "b.jpg.json").write_text(content)
    assert _texts(tmp_path, "b.jpg") == []


def test_a_folder_without_sidecars_or_that_is_gone_has_none(tmp_path):
    (tmp_path / "b.jpg").write_bytes(b"")
    assert list(FolderSidecars.of(str(tmp_path)).beside("b.jpg")) == []
    assert list(FolderSidecars.of(str(tmp_path / "gone")).beside("b.jpg")) == []
