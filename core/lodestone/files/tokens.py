"""Names of content that is known without a file: the BLAKE3 hash of bytes, and the token of an object's version.

A token needs no download. The same etag and size mean the same content, wherever the object is moved to. Where a store gives no
etag, the token is made of the object's URL, size and time.
"""

from __future__ import annotations


def hash_bytes(data: bytes) -> str:
    """Return the BLAKE3 hash of some content: 64 hexadecimal digits, the same as `hash_file` gives for a file with it."""
    import blake3

    return blake3.blake3(data).hexdigest()


def object_token(etag: str, size: int, *, url: str = "", mtime_ns: int = 0) -> str:
    """Return the token of an object's content: 64 hexadecimal digits.

    Args:
        etag: As the store gives it, without quotes. When it is "", `url` and `mtime_ns` take its place.
        size: Size in bytes.
        url: The object's URL.
        mtime_ns: Last change, nanoseconds since 1970-01-01T00:00:00Z.
    """
    facts = f"etag\0{etag}\0{size}" if etag else f"object\0{url}\0{size}\0{mtime_ns}"
    return hash_bytes(facts.encode("utf-8", "surrogatepass"))
