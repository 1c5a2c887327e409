"""Folders and files by name: in every spelling, anywhere where the name is unique, with candidates where not."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.catalogs import make_root, picture

from lodestone.catalog.catalog import Catalog
from lodestone.errors import InvalidRequestError
from lodestone.query.asking.filters import FilterSources, build_filter, restriction
from lodestone.sources.captions import CaptionTable
from lodestone.sources.uris import composed, spellings
from lodestone.store.base import MatchAny
from lodestone.tags.service import tag_text
from lodestone_schemas.api import SearchFilters


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite") as opened:
        yield opened


def folders(catalog: Catalog, prefix: str, **filters: list[str]) -> tuple[str, ...]:
    """The spellings of a folder that a filter asks for."""
    built = build_filter(SearchFilters(path_prefix=prefix, **filters), catalog)
    assert built is not None
    return built.must[-1].values  # type: ignore[union-attr]


def test_a_path_of_mixed_spellings_is_found_in_either() -> None:
    mixed = f"{nfc('Köln')}/{nfd('Müller')}"
    for typed in (nfc("Köln/Müller"), nfd("Köln/Müller"), mixed, f"{nfd('Köln')}/{nfc('Müller')}"):
        found = spellings(typed)
        assert found[0] == typed
        assert mixed in found
        assert len(found) == len(set(found)) == 4
    assert spellings("2024/summer") == ("2024/summer",)
    inside = f"{nfc('Mü')}{nfd('llérö')}"
    assert inside in spellings(nfc("Müllérö"))


def test_many_accents_are_spelt_part_by_part_and_never_without_end() -> None:
    name = "/".join(["ü" * 9, "ö" * 9])
    found = spellings(name)
    assert f"{nfc('ü' * 9)}/{nfd('ö' * 9)}" in found
    assert len(found) == 4
    assert len(spellings("/".join("ü" * 40))) == 256
    assert len(spellings("ü" * 8)) == 256
    assert len(spellings("ü" * 9)) == 2


def test_a_name_is_the_only_folder_that_has_it(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    catalog.add_images([picture(root, uri) for uri in ("2018/Norway/a.jpg", "2018/Norway/deep/b.jpg", "2019/Spain/c.jpg")])
    assert folders(catalog, "Norway") == ("2018/Norway",)
    assert folders(catalog, "2018/Norway") == ("2018/Norway",)
    assert folders(catalog, "Norway/deep") == ("2018/Norway/deep",)
    assert folders(catalog, "2019") == ("2019",)
    assert folders(catalog, "Nor") == ("Nor",)
    assert folders(catalog, "a.jpg") == ("a.jpg",)
    assert folders(catalog, "Nor_ay") == ("Nor_ay",)


def test_several_folders_of_a_name_are_listed_and_one_at_the_top_is_meant(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    uris = ["2018/Norway/a.jpg", "2019/Norway/b.jpg", *(f"{year}/x/Oslo/a.jpg" for year in range(10, 17))]
    catalog.add_images([picture(root, uri) for uri in uris])
    with pytest.raises(InvalidRequestError, match="'2018/Norway', '2019/Norway'") as refusal:
        folders(catalog, "Norway")
    assert refusal.value.details["candidates"] == ["2018/Norway", "2019/Norway"]
    assert "and more" not in refusal.value.message
    with pytest.raises(InvalidRequestError, match="and more"):
        folders(catalog, "Oslo")
    catalog.add_images([picture(root, "Norway/c.jpg")])
    assert folders(catalog, "Norway") == ("Norway",)


@pytest.mark.parametrize("typed", ["2018/Norway", "Norway", "years/2018/Norway"])
def test_a_folder_that_is_a_directory_of_its_own_is_found_by_its_former_path_and_name(catalog: Catalog, typed: str) -> None:
    make_root(catalog, path="/years")
    _, own = make_root(catalog, path="/years/2018/Norway")
    make_root(catalog, path="/years/2018/Old Norway")
    built, notes = restriction(SearchFilters(path_prefix=typed), FilterSources(catalog))
    assert built is not None
    assert built.must == (MatchAny("root", (own.root_id,)),)
    assert notes == []
    catalog.set_root(own.root_id, enabled=False)
    _, notes = restriction(SearchFilters(path_prefix=typed), FilterSources(catalog))
    assert notes == ["the directory 'Norway' is disabled and left out; see `lodestone directory list`"]


def test_a_directory_inside_the_folder_is_told_of_unless_it_is_disabled(catalog: Catalog) -> None:
    _, years = make_root(catalog, path="/years")
    _, own = make_root(catalog, path="/years/2018/Norway")
    catalog.add_images([picture(years, "2018/a.jpg"), picture(own, "b.jpg")])
    built, notes = restriction(SearchFilters(path_prefix="2018"), FilterSources(catalog))
    assert built is not None
    assert built.must == (MatchAny("folders", ("2018",)),)
    assert notes == ["the directory 'Norway' is inside '2018' and not searched with it; --root names it"]
    assert restriction(SearchFilters(path_prefix="201"), FilterSources(catalog))[1] == []
    assert restriction(SearchFilters(path_prefix="2018", roots=["years"]), FilterSources(catalog))[1] == []
    catalog.set_root(own.root_id, enabled=False)
    assert restriction(SearchFilters(path_prefix="2018"), FilterSources(catalog))[1] == []


def test_a_folder_inside_comes_before_a_directory_of_the_name(catalog: Catalog) -> None:
    _, years = make_root(catalog, path="/years")
    make_root(catalog, path="/other/Norway")
    catalog.add_images([picture(years, "2018/Norway/a.jpg")])
    assert folders(catalog, "Norway") == ("2018/Norway",)


def test_a_name_is_looked_for_in_the_roots_that_are_asked_for_and_not_among_gone_pictures(catalog: Catalog) -> None:
    _, one = make_root(catalog, "c", "/pictures/one")
    _, two = make_root(catalog, "c", "/pictures/two")
    gone = picture(one, "old/Norway/b.jpg")
    catalog.add_images([picture(one, "2018/Norway/a.jpg"), gone, picture(two, "2019/Norway/b.jpg")])
    catalog.mark_gone([gone.image_id])
    assert folders(catalog, "Norway", roots=["one"]) == ("2018/Norway",)
    assert folders(catalog, "Norway", roots=["two"]) == ("2019/Norway",)


def test_a_name_in_another_spelling_is_found(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    place = f"{nfc('Köln')}/{nfd('Müller')}"
    catalog.add_images([picture(root, f"{place}/a.jpg")])
    assert place in folders(catalog, nfc("Köln/Müller"))
    assert place in folders(catalog, nfd("Köln/Müller"))
    assert place in folders(catalog, nfc("Müller"))


def test_pictures_are_found_by_their_file_names(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    uris = ("2018/IMG_1002.jpg", "IMG_1003.jpg", "a/IMG_1003.jpg", "b/xIMG_1002.jpg", f"c/{nfd('Grün')}.jpg", "IMGx1002.jpg")
    catalog.add_images([picture(root, uri) for uri in uris])

    def called(name: str, most: int = 6) -> list[str]:
        return [image.uri for image in catalog.pictures_called(spellings(name), most=most)]

    assert called("IMG_1002.jpg") == ["2018/IMG_1002.jpg"]
    assert called("2018/IMG_1002.jpg") == ["2018/IMG_1002.jpg"]
    assert called("IMG_1003.jpg") == ["IMG_1003.jpg", "a/IMG_1003.jpg"]
    assert called("IMG_1003.jpg", most=1) == ["IMG_1003.jpg"]
    assert called(f"{nfc('Grün')}.jpg") == [f"c/{nfd('Grün')}.jpg"]
    assert called("1002.jpg") == []


def test_a_captions_table_names_files_in_either_spelling(tmp_path: Path) -> None:
    table = tmp_path / "captions.tsv"
    table.write_text(
        f"file\tcaption\n{nfc('Grün')}.jpg\ta meadow\n{nfd('Köln')}/b.jpg\ta dome\n{nfd('Grün')}.jpg\tgrass\n", "utf-8"
    )
    captions = CaptionTable.load(table)
    meadow, dome = f"x/{nfd('Grün')}.jpg", f"{nfc('Köln')}/b.jpg"
    assert [caption.text for caption in captions.for_uri(meadow)] == ["a meadow", "grass"]
    assert [caption.text for caption in captions.for_uri(dome)] == ["a dome"]
    assert captions.unmatched([meadow, dome]) == []
    assert captions.unmatched([meadow]) == [composed(f"{nfd('Köln')}/b.jpg")]
    shared = captions.with_unique_names([meadow, f"y/{nfc('Grün')}.jpg"])
    assert shared.for_uri(meadow) == ()


def test_two_spellings_of_a_tag_are_one_tag() -> None:
    assert tag_text(nfd("Köln")) == tag_text(nfc("Köln")) == nfc("Köln")
