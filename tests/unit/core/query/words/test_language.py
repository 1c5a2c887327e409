"""Recognition of a query's language."""

import pytest

from lodestone.query.words.language import foreign_language, latin_languages

# Our own sentences about pictures, one for each language.
SENTENCES = {
    "de": [
        "ein Bild für Kinder",
        "Mädchen auf dem Pferd",
        "zwei Hunde spielen am Strand",
        "eine alte Frau mit Hut",
        "Kinder im Schnee",
        "ein Auto vor dem Haus",
    ],
    "fr": [
        "café au lait sur la table",
        "une fille à la fenêtre",
        "deux chiens jouent sur la plage",
        "une vieille dame avec un chapeau",
        "voiture rouge",
        "des enfants dans la neige",
    ],
    "es": [
        "café con leche en la mesa",
        "el niño",
        "dos perros juegan en la playa",
        "una mujer con sombrero",
        "niños en la nieve",
        "coche rojo en la calle",
    ],
    "it": ["due cani giocano sulla spiaggia", "una donna con il cappello", "bambini nella neve"],
    "pt": ["dois cães brincam na praia", "uma mulher com chapéu", "crianças na neve"],
    "nl": ["twee honden spelen op het strand", "een oude vrouw met een hoed", "kinderen in de sneeuw"],
    "sv": ["två hundar leker på stranden", "en gammal kvinna med hatt", "barn i snön"],
    "pl": ["dwa psy bawią się na plaży", "stara kobieta w kapeluszu", "dzieci na śniegu"],
    "tr": ["sahilde oynayan iki köpek", "şapkalı yaşlı kadın", "karda çocuklar"],
    "zh": ["两只狗在沙滩上玩", "戴帽子的老妇人"],
    "ja": ["浜辺で遊ぶ二匹の犬", "雪の中の子供たち"],
    "ko": ["해변에서 노는 개 두 마리"],
    "ru": ["две собаки играют на пляже"],
    "el": ["δύο σκυλιά παίζουν στην παραλία"],
    "ar": ["كلبان يلعبان على الشاطئ"],
    "hi": ["समुद्र तट पर खेलते दो कुत्ते"],
    "th": ["สุนัขสองตัวเล่นบนชายหาด"],
}
ENGLISH = [
    "two dogs playing on a beach",
    "die hat",  # words of two languages
    "the man with a red gift",
    "rose",
    "bus",
    "an old man in a war museum",
    "santa fe",
    "piñata party",
    "a café in paris",
    "los angeles at night",
    "golden retriever",
    "asdkjh qwe",
    "brwon dgo on teh beach",
    "Zuzka",
    "IMG 2041",
    "👩‍👧 at the beach",
    "42",
    "…",
    "café",
    "cafe\u0301",
    "crème brûlée",
    "Zürich",
    "a jalapeño on a plate",
    "São Paulo street",
    "château by a lake",
    "Curaçao beach",
    "a fête in a village",
    "smörgåsbord",
    "déjà vu",
    "à la carte menu",
    "mañana",
    "Łódź street",
    "café con dog",
]


@pytest.mark.parametrize(("code", "sentence"), [(code, one) for code, some in SENTENCES.items() for one in some])
def test_a_sentence_in_another_language_is_recognised(code, sentence):
    language = foreign_language(sentence)
    assert language is not None
    assert language.code == code


@pytest.mark.parametrize("text", ENGLISH)
def test_english_misspelt_english_and_names_are_not_taken_for_another_language(text):
    assert foreign_language(text) is None


def test_the_list_of_words_is_whole():
    languages = latin_languages()
    assert {language.code for language in languages} >= {"de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "fi", "pl"}
    assert all(len(words) > 100 for words in languages.values())
