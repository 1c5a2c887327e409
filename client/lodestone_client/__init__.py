"""How does a program ask a Lodestone service? `Lodestone` and `AsyncLodestone`: typed, streaming, patient."""

from lodestone_client.async_client import AsyncLodestone
from lodestone_client.retrying import RetryPolicy
from lodestone_client.sync_client import Lodestone

__all__ = ["AsyncLodestone", "Lodestone", "RetryPolicy"]
