"""Requests of each sender by window, counted on PostgreSQL for all replicas of a service.

A replica takes tokens, several at once, before it lets requests in. One statement decides and counts: the sender's row of the
present window is locked while it runs. The window slides: the part of the window before that is not over yet counts too, as if
its requests had come evenly. Windows are numbered by the database's clock, so the replicas' clocks need not agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import text

from lodestone.catalog.database.engine import CatalogBase, translated_errors

_PRUNES: Final = 64  # a sender's first request in one of so many windows prunes old rows

_TAKE: Final = text("""
    WITH present AS (
        SELECT floor(epoch / :window_s)::bigint AS number, 1 - (epoch / :window_s - floor(epoch / :window_s)) AS left_share
        FROM (SELECT extract(epoch FROM clock_timestamp())::float8 AS epoch) AS clock
    ), allowed AS (
        SELECT number, left_share, floor(:amount - left_share * coalesce((
            SELECT taken FROM rate_windows
            WHERE sender = :sender AND window_s = :window_s AND rate_windows.number = present.number - 1
        ), 0))::int AS most
        FROM present
    )
    INSERT INTO rate_windows AS known (sender, window_s, number, taken, granted, ends_at)
    SELECT
        :sender, :window_s, number, least(:wanted, greatest(0, most)), least(:wanted, greatest(0, most)),
        (number + 2) * :window_s
    FROM allowed
    ON CONFLICT (sender, window_s, number) DO UPDATE SET
        granted = greatest(0, least(:wanted, (SELECT most FROM allowed) - known.taken)),
        taken = known.taken + greatest(0, least(:wanted, (SELECT most FROM allowed) - known.taken))
    RETURNING granted, taken, number, (SELECT most FROM allowed), (SELECT left_share FROM allowed)
""")
_PRUNE: Final = text("DELETE FROM rate_windows WHERE ends_at < extract(epoch FROM clock_timestamp())")


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """Tokens that one replica got; each is worth one request.

    Attributes:
        granted: Number of tokens.
        remaining: Tokens that are left for all replicas in this window.
        left_s: Seconds until that window ends, by the database's clock.
    """

    granted: int
    remaining: int
    left_s: float


class RateRows(CatalogBase):
    """Part of the catalog that counts requests of senders for all replicas. On PostgreSQL alone: SQLite has one replica."""

    def take_tokens(self, sender: str, *, amount: int, window_s: int, wanted: int) -> TokenGrant:
        """Take up to `wanted` of the tokens that a sender has left in the present window.

        It is tried once: whoever waits for it lets requests in by other means if the database does not answer.

        Args:
            sender: Key or address, at most 200 characters.
            amount: Requests that it may send in each window.
            window_s: Length of a window, seconds.
            wanted: Tokens to take, at least 1.

        Raises:
            CatalogError: The database does not answer, or is no PostgreSQL.
        """
        values = {"sender": sender, "amount": amount, "window_s": window_s, "wanted": wanted}
        with translated_errors(), self._engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            granted, taken, window, most, left = connection.execute(_TAKE, values).one()
            if granted == taken and window % _PRUNES == 0:
                connection.execute(_PRUNE)
        return TokenGrant(granted, max(0, most - taken), left * window_s)
