"""What of the home does a principal see?"""

from __future__ import annotations

from lodestone_serve.principal import Principal
from lodestone_serve.services import Services


def seen_by(services: Services, principal: Principal) -> Services:  # noqa: ARG001
    """The services as the principal may see them."""
    return services
