"""Dates of the command line: four options, one reader, and errors that name the option."""

# ruff: noqa: DTZ001 - dates without an offset are of the picture's own clock

from datetime import datetime

import pytest

from lodestone.errors import InvalidRequestError
from lodestone_cli.dates import Dates, dates_of


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        ((None, None, None, None), Dates()),
        (("2021", None, None, None), Dates(start=datetime(2021, 1, 1))),
        ((None, "2021", None, None), Dates(end=datetime(2021, 1, 1))),
        (("20210203", "2021-03", None, None), Dates(datetime(2021, 2, 3), datetime(2021, 3, 1))),
        ((None, None, "2021", None), Dates(datetime(2021, 1, 1), datetime(2022, 1, 1))),
        ((None, None, None, "2021-12"), Dates(datetime(2021, 12, 1), datetime(2022, 1, 1))),
    ],
)
def test_options_are_the_bounds_that_they_name(options, bounds):
    assert dates_of(*options) == bounds


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("-", None, None, None), "--from '-' is not a date"),
        ((None, "soon", None, None), "--to 'soon' is not a date"),
        ((None, None, "2021-05", None), "--year '2021-05' is not a year"),
        ((None, None, None, "2021"), "--month '2021' is not a month"),
        ((None, None, None, "2021-13"), "--month '2021-13' is not in the calendar"),
        ((None, None, "2021", "2021-05"), "--year names both ends"),
        (("2021", None, None, "2021-05"), "--month names both ends"),
        ((None, "2021", "2020", None), "--year names both ends"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_option(options, problem):
    with pytest.raises(InvalidRequestError, match=problem) as refused:
        dates_of(*options)
    assert refused.value.hint
