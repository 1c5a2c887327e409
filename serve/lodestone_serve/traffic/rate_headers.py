"""What answers say about the rate of their sender: headers of draft-ietf-httpapi-ratelimit-headers, and the refusal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lodestone.errors import RateLimitedError

_POLICY: Final = re.compile(rb'"default";q=(\d{1,9});w=(\d{1,9})')
_LEFT: Final = re.compile(rb'"default";r=(\d{1,9});t=(\d{1,9})')


@dataclass(frozen=True, slots=True)
class RateState:
    """A sender's rate, and what is left of it.

    Attributes:
        amount: Requests that it may send in each window.
        window_s: Length of a window, seconds.
        remaining: Requests that are left.
        reset_s: Seconds until the window ends.
    """

    amount: int
    window_s: int
    remaining: int
    reset_s: int

    def headers(self) -> dict[str, str]:
        """Return the state as headers of an answer."""
        return {
            "RateLimit-Policy": f'"default";q={self.amount};w={self.window_s}',
            "RateLimit": f'"default";r={self.remaining};t={self.reset_s}',
        }

    @classmethod
    def of(cls, headers: Iterable[tuple[bytes, bytes]]) -> RateState | None:
        """Return the state that the headers of an answer give; None if they give none."""
        values = {name.lower(): value for name, value in headers}
        policy = _POLICY.fullmatch(values.get(b"ratelimit-policy", b""))
        left = _LEFT.fullmatch(values.get(b"ratelimit", b""))
        if policy is None or left is None or not int(policy[1]) or not int(policy[2]):
            return None
        return cls(int(policy[1]), int(policy[2]), int(left[1]), int(left[2]))

    def refusal(self) -> RateLimitedError:
        """Return the error for a request beyond the rate."""
        return RateLimitedError(
            f"more than {self.amount} requests in {self.window_s} s",
            hint=f"try again in {self.reset_s} s, or ask for a key with a higher rate",
            retry_after=self.reset_s,
            limit=self.amount,
            window_s=self.window_s,
        )
