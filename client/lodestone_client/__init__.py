"""The Python client of a Lodestone service: `Lodestone` and `AsyncLodestone`, typed, streaming, with retries."""

from lodestone_client.async_client import AsyncLodestone
from lodestone_client.retrying import RetryPolicy
from lodestone_client.sync_client import Lodestone
from lodestone_schemas.api import SearchRequest

__all__ = ["AsyncLodestone", "Lodestone", "RetryPolicy", "SearchRequest"]
