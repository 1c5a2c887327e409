"""The promtool of the machine or of Debian's package. Without it, tests skip, or fail if it is required."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scripts.fetch_promtool import PromtoolUnavailableError, fetch

REQUIRE = "LODESTONE_REQUIRE_PROMTOOL"


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The tool; without it the test skips, or fails with LODESTONE_REQUIRE_PROMTOOL=1."""
    try:
        return fetch()
    except PromtoolUnavailableError as error:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but there is no promtool: {error}", pytrace=False)
        pytest.skip(f"no promtool: {error}")
