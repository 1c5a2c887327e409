"""Encodings of texts that nothing states: what people wrote comes back, and bytes that are no text are refused."""

import random

import pytest

from lodestone.imaging.text_encoding import decode_text


@pytest.mark.parametrize(
    ("text", "encodings"),
    [
        ("Straße in Zürich", "utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 cp1252 mac_roman"),
        ("crème brûlée à la façon d’été", "utf-8 utf-16-le utf-16-be cp1252 mac_roman"),
        ("“Fest” – im Grünen…", "utf-8 utf-16-le cp1252 mac_roman"),
        ("Köln", "utf-8 cp1252 mac_roman"),
        ("GRÜSSE AUS KÖLN", "cp1252 mac_roman"),
        ("Oma’s Garten, 25°", "cp1252 mac_roman"),
        ("España: ¿Qué?", "cp1252 mac_roman"),
        ("smörgåsbord\nblåbær", "cp1252 mac_roman"),
        ("Żółta łódź w Łodzi", "utf-8 cp1250 iso8859_2 utf-16-be"),
        ("Кошка на крыше", "utf-8 cp1251 utf-16-le utf-16-be"),
        ("γάτα στη στέγη", "utf-8 cp1253 utf-16-le utf-16-be"),
        ("猫 auf dem Dach", "utf-8 utf-16 utf-16-le utf-16-be"),
        ("5° und 3 €", "cp1252 mac_roman"),
        ("plain", "ascii utf-16-le utf-16-be"),
        ("", "ascii"),
    ],
)
def test_what_was_written_comes_back(text, encodings):
    for encoding in encodings.split():
        assert decode_text(text.encode(encoding)) == text, encoding


def test_bytes_that_are_no_text_are_refused():
    draw = random.Random(3)
    for size in (400, 2_000):
        for _ in range(20):
            assert decode_text(draw.randbytes(size)) is None
    assert decode_text(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(40))) is None
    assert decode_text(b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01" + draw.randbytes(300)) is None
    assert decode_text(b"\1\2\3\4" * 20) is None
    assert decode_text(b"\1\2\xff\xfe\x99") is None


def test_few_control_characters_and_a_zero_at_the_end_do_not_hurt():
    assert decode_text(b"a red bicycle on a wall, leaning, in the evening sun\x0c\0\0") == (
        "a red bicycle on a wall, leaning, in the evening sun\x0c"
    )
    assert decode_text(b"x" * 100 + b"\x1b\x1b") is not None
    assert decode_text(b"x" * 98 + b"\x1b\x1b\x1b") is None
