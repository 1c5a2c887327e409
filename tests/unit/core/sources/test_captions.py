"""Captions: from files beside the picture, from inside it, and from a table."""

import logging
import os
from pathlib import Path

import pytest
from tests.support.pictures import iptc_record, xmp_packet

from lodestone.errors import InvalidRequestError
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.sources.captions import (
    MAX_CAPTION_CHARACTERS,
    MAX_CAPTIONS,
    Caption,
    CaptionSource,
    CaptionTable,
    embedded_captions,
)
from lodestone.sources.sidecars import read_sidecars


def _texts(captions):
    return [caption.text for caption in captions]


def _table(tmp_path, content, name="captions.tsv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return CaptionTable.load(path)


def test_sidecars_of_both_names_are_read_one_caption_a_line(tmp_path):
    (tmp_path / "photo.jpg.txt").write_text("a red  bicycle\n\n  leaning on a wall \n")
    (tmp_path / "photo.txt").write_text("Amsterdam\na red bicycle\n")
    captions = read_sidecars(tmp_path / "photo.jpg")
    assert _texts(captions) == ["a red bicycle", "leaning on a wall", "Amsterdam"]
    assert {caption.source for caption in captions} == {CaptionSource.SIDECAR}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_sidecar_encodings(tmp_path, encoding):
    (tmp_path / "x.txt").write_bytes("Köln\n".encode(encoding))
    assert _texts(read_sidecars(tmp_path / "x.png")) == ["Köln"]


def test_no_sidecar_no_caption_and_a_folder_of_that_name_is_none(tmp_path):
    (tmp_path / "x.txt").mkdir()
    assert read_sidecars(tmp_path / "x.jpg") == ()


def test_sidecar_of_a_name_that_is_not_utf8(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.txt")).write_text("found\n")
    assert _texts(read_sidecars(tmp_path / os.fsdecode(b"\xff.jpg"))) == ["found"]


def test_length_and_number_of_captions_are_bounded(tmp_path):
    (tmp_path / "x.txt").write_text("\n".join(f"{i} " + "ü" * 30_000 for i in range(100)))
    captions = read_sidecars(tmp_path / "x.jpg")
    assert 0 < len(captions) <= MAX_CAPTIONS
    assert max(map(len, _texts(captions))) == MAX_CAPTION_CHARACTERS
    (tmp_path / "y.txt").write_text("\n".join(str(i) for i in range(100)))
    assert len(read_sidecars(tmp_path / "y.jpg")) == MAX_CAPTIONS


def test_descriptions_inside_the_picture_carry_their_source():
    embedded = EmbeddedMetadata(xmp=xmp_packet(description="a dog\nin snow"), iptc=iptc_record("ein Hund"))
    assert embedded_captions(embedded) == (
        Caption("a dog in snow", CaptionSource.XMP),
        Caption("ein Hund", CaptionSource.IPTC),
    )


def test_table_matches_uris_first_then_bare_names(tmp_path):
    table = _table(tmp_path, 'file\tcaption\r\na/x.jpg\tthe "one" in a\r\nx.jpg\tany x\r\na/x.jpg\tanother\r\n')
    assert _texts(table.for_uri("a/x.jpg")) == ['the "one" in a', "another"]
    assert _texts(table.for_uri("b/x.jpg")) == ["any x"]
    assert table.for_uri("b/y.jpg") == ()
    assert table.for_uri("a/x.jpg")[0].source is CaptionSource.TABLE
    assert table.unmatched(["b/x.jpg"]) == ["a/x.jpg"]


def test_bare_name_that_several_pictures_share_matches_none_of_them(tmp_path, caplog):
    table = _table(tmp_path, "file\tcaption\nx.jpg\tambiguous\ny.jpg\tclear\n")
    with caplog.at_level(logging.WARNING):
        bound = table.with_unique_names(["a/x.jpg", "b/x.jpg", "a/y.jpg"])
    assert bound.for_uri("a/x.jpg") == bound.for_uri("b/x.jpg") == ()
    assert _texts(bound.for_uri("a/y.jpg")) == ["clear"]
    assert "x.jpg" in caplog.text
    in_root = table.with_unique_names(["x.jpg", "b/x.jpg"])
    assert _texts(in_root.for_uri("x.jpg")) == ["ambiguous"]
    assert in_root.for_uri("b/x.jpg") == ()


def test_quotes_are_text_in_tsv_and_quoting_in_csv(tmp_path):
    assert _texts(_table(tmp_path, 'file\tcaption\nx.jpg\t"half open\n').for_uri("x.jpg")) == ['"half open']
    table = _table(tmp_path, 'file,caption\n"a,b.jpg","red, ""green""\nand blue"\n', "captions.csv")
    assert _texts(table.for_uri("a,b.jpg")) == ['red, "green" and blue']


def test_line_and_paragraph_separators_do_not_split_rows(tmp_path):
    assert _texts(_table(tmp_path, "file\tcaption\nx.jpg\tone\u2028two\x0bthree\n").for_uri("x.jpg")) == ["one two three"]
    assert _texts(_table(tmp_path, "file,caption\nx.jpg,one\u2028two\n", "c.csv").for_uri("x.jpg")) == ["one two"]


def test_windows_tables_in_utf16_are_read(tmp_path):
    assert _texts(_table(tmp_path, "file\tcaption\nx.jpg\tKöln\n".encode("utf-16")).for_uri("x.jpg")) == ["Köln"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", 1),
        ("name\ttext\nx.jpg\ta dog\n", 1),
        ("file,caption\nx.jpg,a dog\n", 1),
        ("file\tcaption\nx.jpg\ta dog\ny.jpg\n", 3),
        ("file\tcaption\nx.jpg\ta\tdog\n", 2),
        ("file\tcaption\n\ta dog\n", 2),
        (b"file\tcaption\nx.jpg\tok\ny.jpg\tK\xf6ln\n", 3),
        ("file\tcaption\nx.jpg\t" + "a" * 200_000 + "\n", 2),
    ],
)
def test_bad_table_is_refused_naming_the_line(tmp_path, content, line):
    with pytest.raises(InvalidRequestError, match=f"line {line}") as caught:
        _table(tmp_path, content)
    assert caught.value.details["line"] == line
    assert caught.value.hint


def test_missing_table_is_refused(tmp_path):
    with pytest.raises(InvalidRequestError, match=r"nowhere\.tsv"):
        CaptionTable.load(tmp_path / "nowhere.tsv")


def test_credentials_in_what_should_be_a_file_are_not_repeated() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        CaptionTable.load(Path("s3://AKIAKEY:verysecret@bucket/captions.csv"))
    assert "verysecret" not in str(caught.value)
    assert "bucket/captions.csv" in str(caught.value)
