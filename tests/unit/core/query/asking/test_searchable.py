"""Collections that a query is compared with where the index is of other versions than the home is configured for."""

from types import SimpleNamespace

import pytest

from lodestone.query.asking.searchable import FormerVersion, IndexVersions, searchable_captions, searchable_spaces

LIVE = {"bridge": "bridge-1", "labels": "labels-1", "captions": "captions-1"}
REFRESH = "run `lodestone index --resume` to refresh, once for each `--corpus NAME`"


def spaces(known, former, *present):
    return searchable_spaces(["bridge", "labels"], LIVE, known=known, former=former, present=lambda: present)


@pytest.mark.parametrize(("encoder", "reader"), [(None, ""), ("minilm", ", whose text encoder is 'minilm'")])
def test_a_former_version_is_searched_and_named(encoder, reader):
    found, notes = spaces(LIVE, {"bridge": FormerVersion("bridge-2", encoder)})
    assert found == {"bridge": "bridge-1", "labels": "labels-1"}
    assert notes == [
        f"space 'bridge' is searched in its former version 'bridge-1'{reader}: nothing is indexed in 'bridge-2' yet; {REFRESH}"
    ]


def test_a_former_version_that_is_gone_too_is_left_out_and_told_once():
    found, notes = spaces({**LIVE, "bridge": "bridge-0"}, {"bridge": FormerVersion("bridge-2")}, "bridge-1")
    assert found == {"labels": "labels-1"}
    assert notes == [f"space 'bridge' is left out: its index 'bridge-1' is of another version than 'bridge-0'; {REFRESH}"]


@pytest.mark.parametrize(
    ("made", "present", "described", "expected", "told"),
    [
        ("captions-1", (), True, "captions-1", False),
        ("captions-2", ("captions-1", "captions-2"), True, "captions-2", False),
        ("captions-2", ("captions-1",), True, None, True),
        ("captions-2", ("captions-1",), False, None, False),
    ],
)
def test_captions_are_compared_with_words_of_their_own_encoder_alone(made, present, described, expected, told):
    catalog = SimpleNamespace(has_captions=lambda: described)
    found, notes = searchable_captions(LIVE, IndexVersions(captions=lambda: made), catalog, lambda: present)
    assert found == expected
    left_out = f"captions are left out: their index 'captions-1' is of another text encoder than 'captions-2'; {REFRESH}"
    assert notes == ([left_out] if told else [])


def test_versions_of_models_are_not_read_where_nothing_has_captions():
    def read():
        raise AssertionError("the encoder's version was read")

    assert searchable_captions({}, IndexVersions(captions=read), SimpleNamespace(), tuple) == (None, [])
    assert searchable_captions(LIVE, IndexVersions(), SimpleNamespace(), tuple) == ("captions-1", [])
