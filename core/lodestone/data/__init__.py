"""Files that ship inside the package."""

from typing import Final

DEFAULT_BRIDGE: Final = "bridge.safetensors"  # below `bridge/`; the profile `embedded` uses it
