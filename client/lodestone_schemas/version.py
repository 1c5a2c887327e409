"""The version of Lodestone, which the product and the client share."""

__version__ = "0.1.0"
