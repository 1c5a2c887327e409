"""How does a program ask a Lodestone service? `Lodestone` and `AsyncLodestone`: typed, streaming, patient."""

from lodestone.client.async_client import AsyncLodestone
from lodestone.client.retrying import RetryPolicy
from lodestone.client.sync_client import Lodestone

__all__ = ["AsyncLodestone", "Lodestone", "RetryPolicy"]
