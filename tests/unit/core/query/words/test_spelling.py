"""Correction of misspelt words: what is corrected to what, and what is left alone."""

import random
import re
import string
from importlib.resources import files

import pytest

from lodestone.query.words.spelling import _NEXT_TO, Lexicon, correct, is_known
from lodestone.text_encoders.english import english_counts, further_words, picture_words, words_of
from lodestone.text_encoders.labels import imagenet_labels


@pytest.fixture(scope="module")
def lexicon():
    return Lexicon(
        english_counts(), further_words(), words_of(imagenet_labels()), picture_words(), frozenset({"skai", "zuzka"})
    )


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("brwon dog on the beech", "brown dog on the beech"),  # a beech is a tree
        ("two dgos runing on a beach", "two dogs running on a beach"),
        ("a birtday cake", "a birthday cake"),
        ("A man climbng a mountan", "A man climbing a mountain"),
        ("Brwon dog", "Brown dog"),
        ("blackdog in the snow", "black dog in the snow"),
        ("teh dgo", "the dog"),
        ("labrador retreiver", "labrador retriever"),
        ("the brwon dog's ball", "the brown dog's ball"),
        ("a whtie-haired man, smilling", "a white-haired man, smiling"),
    ],
)
def test_misspelt_words_become_the_likeliest_known_ones(lexicon, asked, searched):
    correction = correct(asked, lexicon)
    assert correction is not None
    assert correction.text == searched


@pytest.mark.parametrize(
    "asked",
    [
        "two dogs running on a beach",
        "komondor",  # a class name
        "zuzka in the skai",  # the encoder knows both
        "a picture of Zuska and Petrr",  # names
        "Petrr",
        "NASA rocet"[:4],
        "iPhnoe",
        "bmx race",  # a short word, no letters swapped
        "IMG2041 r2d2",
        "frisbees",
        "собака на пляже",
        "café",
        "asdkjh qwe",  # no word is near
        "2019",
        "",
    ],
)
def test_known_words_names_short_words_and_other_letters_are_never_corrected(lexicon, asked):
    assert correct(asked, lexicon) is None


TRUE_WORDS = {
    "American": "moldy meager drafty gray plow plowing tire pajamas ax maneuver maneuvering armored colorful favorite harbor "
    "neighbor theater fiber specter somber jeweler traveler canceled paneling spiraling fueling dialing woolen willful skeptic "
    "caramelized catalog airplane aluminum archeologist gynecologist donut molding mustache pretense sulfur odorless tricolor",
    "British": "mouldy meagre draughty grey plough tyre pyjamas axe manoeuvre armoured colourful harbour theatre fibre "
    "sombre jeweller traveller panelling kerbside aeroplane doughnut moustache sulphur aubergine courgette gilet cagoule",
    "brands": "vespa lego leica lidl makita dewalt fitbit gameboy nutella playmobil ryanair skoda hyundai moleskine xiaomi",
    "dishes": "udon macaron rendang laksa acai congee arepa poutine dolma lassi bibimbap pierogi tzatziki injera",
    "breeds": "havanese shiba korat degu cockapoo maltipoo weimaraner keeshond lipizzaner mangalitsa axolotl quokka",
    "compounds": "waterslide snowboarder snowkite facepaint bikepath lifejacket roadtrip rockclimber horsecart longboard",
    "newer words": "camo selfie hoodie drone onesie parkour zipline hashtag vlogger smartwatch",
}


@pytest.mark.parametrize(("kind", "words"), TRUE_WORDS.items())
def test_true_words_of_all_kinds_stay(lexicon, kind, words):
    changed = {word: correction.text for word in words.split() if (correction := correct(word, lexicon))}
    assert not changed, kind


SLIPS = """
brwon brown, hosre horse, mountian mountain, gril girl, jupm jump, baech beach, womna woman, eagel eagle, runing running,
swiming swimming, bicyle bicycle, montain mountain, umbrela umbrella, girafe giraffe, birtday birthday, chidren children,
childern children, elephnt elephant, tigr tiger, gitar guitar, wter water, snowboardr snowboarder, skatebaord skateboard,
beautifull beautiful, dogg dog, treee tree, boatt boat, leavess leaves, restaurent restaurant, kitchin kitchen, rwd red,
amn man, recieve receive, messanger messenger, frontire frontier, broadcase broadcast, acessing accessing, teh the,
grafiti graffiti, colorfull colorful, colourfull colourful, neigbor neighbor, neigbour neighbour, favorit favorite,
favourit favourite, theatr theatre
"""


@pytest.mark.parametrize(("misspelt", "right"), [pair.split() for pair in SLIPS.split(",")])
def test_slips_of_common_words_are_corrected(lexicon, misspelt, right):
    correction = correct(f"a {misspelt}", lexicon)
    assert correction is not None
    assert correction.text == f"a {right}"


@pytest.mark.parametrize("word", ["spalding", "bleuze", "makin", "qwex", "zorp"])
def test_a_word_that_no_list_has_stays_where_no_likely_word_is_near(word):
    empty = Lexicon({"baking": 60_000, "scalding": 60_000, "bleuse": 60_000, "qwen": 90_000, "zorb": 90_000})
    assert correct(f"a {word}", empty) is None


def test_a_short_word_needs_a_likelier_correction_than_a_long_one():
    lexicon = Lexicon({"kite": 400_000, "kitesurfing": 400_000})
    assert correct("a kitd", lexicon) is None
    assert correct("a kitesurfinb", lexicon).text == "a kitesurfing"


def test_a_letter_left_out_or_two_swapped_are_likelier_than_a_wrong_one_or_one_too_many():
    lexicon = Lexicon({"winter": 9_000_000, "water": 9_000_000, "dogs": 90_000_000, "dog": 200_000_000})
    assert correct("a wnter", lexicon).text == "a winter"
    assert correct("a dosg", lexicon).text == "a dogs"


def test_a_wrong_letter_from_the_next_key_is_likelier_than_another():
    lexicon = Lexicon({"mouth": 90_000_000, "couth": 90_000_000})
    assert correct("a nouth", lexicon).text == "a mouth"  # n is beside m
    assert correct("a vouth", lexicon).text == "a couth"  # and v beside c


def test_a_letter_too_many_from_the_next_key_is_likelier_than_another():
    lexicon = Lexicon({"brown": 6_500_000})
    assert correct("a brfown", lexicon).text == "a brown"  # f is beside r
    assert correct("a brzown", lexicon) is None


def test_a_word_that_says_what_pictures_show_needs_no_count_to_be_a_correction():
    lexicon = Lexicon({}, visible=frozenset({"snowboarder"}))
    assert correct("a snowboardr", lexicon).text == "a snowboarder"


def test_compounds_of_two_common_words_of_which_one_is_visible_are_known():
    common = {
        "water": 3_000_000,
        "slide": 3_000_000,
        "waterside": 900_000,
        "from": 9_000_000,
        "tier": 3_000_000,
        "frontier": 9_000_000,
    }
    lexicon = Lexicon(common, visible=frozenset({"water"}))
    assert is_known("waterslide", lexicon)
    assert not is_known("waterslid", lexicon)
    assert not is_known("fromtier", lexicon)
    assert not is_known(
        "colorfull", Lexicon({"color": 9_000_000, "full": 9_000_000, "colorful": 9_000_000}, visible=frozenset({"full"}))
    )
    rare = {word: min(count, 1_000_000) for word, count in common.items()}
    assert not is_known("waterslide", Lexicon(rare, visible=frozenset({"water"})))
    assert not is_known("icewater", Lexicon({"ice": 9_000_000, "water": 9_000_000}, visible=frozenset({"ice", "water"})))


def test_rare_words_are_known_but_no_corrections():
    lexicon = Lexicon({}, further={"weimaraner": 0, "colorful": 1_000_000})
    assert is_known("weimaraner", lexicon)
    assert is_known("weimaraners", lexicon)
    assert correct("a weimaranr", lexicon) is None
    assert correct("a colorfl", lexicon).text == "a colorful"


def test_an_s_after_an_s_is_no_plural(lexicon):
    assert not is_known("leavess", lexicon)
    assert is_known("macarons", lexicon)


def test_the_lists_of_words_do_not_overlap_and_are_small_letters():
    further = further_words()
    assert all(word.isascii() and word == word.casefold() for word in further)
    listed = (
        files("lodestone")
        .joinpath("data", "words", "english.txt")
        .read_text("utf-8")
        .partition("[common]\n")[2]
        .replace("[known]", "")
        .split()
    )
    assert not set(listed) & english_counts().keys()
    assert further["moldy"] > 0
    assert further["labradoodle"] == 0


def test_the_collections_own_words_are_known_and_preferred(lexicon):
    assert correct("brwon", lexicon, own=lambda: {"brwon"}) is None
    assert correct("a skiff with lampin", lexicon) is None
    assert correct("a skiff with lampin", lexicon, own=lambda: {"lampion"}).text == "a skiff with lampion"


def test_the_collections_words_are_read_only_where_a_word_is_unknown(lexicon):
    def read():
        raise AssertionError("read for a query whose words are all known")

    assert correct("two dogs running", lexicon, own=read) is None


def test_most_slips_of_one_letter_in_a_words_middle_are_undone(lexicon):
    rng = random.Random(4)
    words = ["bicycle", "mountain", "umbrella", "children", "elephant", "building", "sunglasses", "waterfall", "skateboard"]
    undone = 0
    for _ in range(200):
        word = rng.choice(words)
        place = rng.randrange(1, len(word) - 1)
        letter = rng.choice(string.ascii_lowercase)
        slip = rng.choice([word[:place] + word[place + 1 :], word[:place] + letter + word[place:]])
        correction = correct(f"a {slip}", lexicon)
        undone += slip == word or (correction is not None and correction.text == f"a {word}")
    assert undone >= 190


def test_what_stands_between_the_words_stays(lexicon):
    text = "brwon, (dgos)  &  “mountan”!"
    assert re.sub(r"\w", "", correct(text, lexicon).text) == re.sub(r"\w", "", text)


@pytest.mark.parametrize(
    ("letter", "beside"),
    [("s", "adqwezxc"), ("a", "sqwzx"), ("p", "ol"), ("q", "was"), ("l", "kiop"), ("z", "xas"), ("m", "nhjk")],
)
def test_keys_beside_a_letter_are_those_left_right_above_and_below(letter: str, beside: str) -> None:
    assert _NEXT_TO[letter] == set(beside)
