"""Error types that Lodestone raises on purpose, each with what the caller can do about it.

Every error has one root, `LodestoneError`. It is picklable (it crosses Ray and process boundaries), and has a stable `code`
that clients may branch on, a `hint` that names the next step, an HTTP `status` for the API (RFC 9457) and an `exit_code` for
the command line. Codes are part of the public interface: add codes, never rename them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from lodestone_schemas.redaction import redacted, without_secrets


class LodestoneError(Exception):
    """Root of all errors that Lodestone raises on purpose. What looks like a secret is taken out of its texts.

    Args:
        message: What went wrong, naming the offending value.
        hint: What the caller can do next.
        details: Machine-readable facts (JSON-serialisable), shown by the API as extension members.
    """

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", **details: Any) -> None:  # noqa: ANN401
        message = redacted(message)
        super().__init__(message)
        self.message = message
        self.hint = redacted(hint)
        self.details = {name: without_secrets(value) if isinstance(value, str) else value for name, value in details.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.details)

    def __str__(self) -> str:
        return self.message


def _rebuild(kind: type[LodestoneError], message: str, hint: str, details: dict[str, Any]) -> LodestoneError:
    return kind(message, hint=hint, **details)


class InvalidRequestError(LodestoneError):
    """The caller's input is wrong: an empty query, a limit out of range, an unknown name. Correct it before you retry."""

    code = "invalid_request"
    status = 422
    exit_code = 2


class UnknownNameError(InvalidRequestError):
    """A name (corpus, profile, backbone, space, fusion, generator) is not registered. The hint lists those that are."""

    code = "unknown_name"
    status = 404

    @classmethod
    def among(cls, kind: str, name: str, known: list[str] | tuple[str, ...]) -> UnknownNameError:
        """Build the error for `name` of a `kind` ("fusion", "corpus"), listing what is `known`."""
        listed = ", ".join(sorted(known)) or "none yet"
        return cls(f"unknown {kind} {name!r}", hint=f"known: {listed}", kind=kind, name=name, known=sorted(known))


class NotFoundError(LodestoneError):
    """A picture, run or file that was requested by id or path does not exist, or not any more."""

    code = "not_found"
    status = 404
    exit_code = 3


class PictureNotReadyError(NotFoundError):
    """The picture is known and not embedded yet: its file is sent only once decoding has accepted it. Ask again later."""

    code = "picture_not_ready"
    status = 409


class ConfigurationError(LodestoneError):
    """Settings contradict each other or cannot be read. Nothing was started."""

    code = "bad_configuration"
    status = 500
    exit_code = 4


class HomeVersionError(LodestoneError):
    """The home was written by a newer Lodestone. Upgrade, or point LODESTONE_HOME elsewhere; nothing was changed."""

    code = "home_too_new"
    status = 500
    exit_code = 5


class StoreLockedError(LodestoneError):
    """Another process owns the embedded store of this home. Wait for it, stop it, or use the running service."""

    code = "store_locked"
    status = 503
    exit_code = 6


class StoreError(LodestoneError):
    """The vector store refused or failed an operation; the catalog and Parquet files are intact."""

    code = "store_failed"
    status = 503
    exit_code = 7


class CollectionDamagedError(StoreError):
    """A collection of the embedded store cannot be read any more. `lodestone index` rebuilds it from the Parquet files."""

    code = "collection_damaged"


class ServiceUnavailableError(LodestoneError):
    """The Lodestone service (or a stage of it) does not answer."""

    code = "service_unavailable"
    status = 503
    exit_code = 8


class NotLodestoneError(ServiceUnavailableError):
    """Something answers at the address, and it is no Lodestone service. Correct the address."""

    code = "not_lodestone"
    status = 502


class ModelUnavailableError(LodestoneError):
    """A model's weights or its package are missing. The hint says what to install."""

    code = "model_unavailable"
    status = 503
    exit_code = 9


class ImageError(LodestoneError):
    """A picture cannot be decoded or used. In bulk work it becomes a failure row and does not stop the job."""

    code = "bad_image"
    status = 422
    exit_code = 10


class ImageTooLargeError(ImageError):
    """Decoding the picture would need more memory than allowed (`index.max_decoded_mb`)."""

    code = "image_too_large"
    status = 413


class OutOfSpaceError(LodestoneError):
    """The disk is full. Finished work is kept; free some space and run the same command again."""

    code = "no_space_left"
    status = 507
    exit_code = 11


class DeadlineExceededError(LodestoneError):
    """The absolute deadline passed before any answer was ready."""

    code = "deadline_exceeded"
    status = 504
    exit_code = 12


class RunFailedError(LodestoneError):
    """An index or training run ended without success; its row in the catalog says at which stage."""

    code = "run_failed"
    status = 500
    exit_code = 13


class CatalogError(LodestoneError):
    """The catalog's database cannot be read or written. What was committed before is intact unless the file is damaged."""

    code = "catalog_failed"
    status = 503
    exit_code = 14


class CatalogLostError(CatalogError):
    """The catalog's file is missing or empty in a home that holds embeddings. Restore a backup, or rebuild the catalog."""

    code = "catalog_lost"


class HomeUnfinishedError(CatalogError):
    """A restore or rebuild of the home was interrupted, or still runs. The same command goes on with it."""

    code = "home_unfinished"


class EmbeddingsDamagedError(LodestoneError):
    """A stored embedding file is missing, truncated or altered. Index the corpus again: only damaged slices are redone."""

    code = "embeddings_damaged"
    status = 500
    exit_code = 15


class ThumbnailsDamagedError(LodestoneError):
    """A pack of thumbnails is truncated or altered. Single ones are made again on request, all of it by the next index run."""

    code = "thumbnails_damaged"
    status = 500
    exit_code = 15


class SourceError(LodestoneError):
    """A bucket, table or archive of pictures cannot be listed or read: denied, expired credentials, missing, malformed."""

    code = "source_unavailable"
    status = 502
    exit_code = 16


class ManifestChangedError(LodestoneError):
    """A table or archive that lists the pictures was changed while a run read it. Finished work is kept: run again."""

    code = "manifest_changed"
    status = 409
    exit_code = 17


class RunCancelledError(LodestoneError):
    """The run was cancelled (`lodestone runs cancel`). Finished work is kept."""

    code = "run_cancelled"
    status = 409
    exit_code = 18


class WorkerDiedError(RunFailedError):
    """A worker process crashed at a slice (killed, out of memory, its node lost); the slice is tried again."""

    code = "worker_died"


class ClusterLostError(RunFailedError):
    """The Ray cluster that embedded was lost: its head node, or this machine's own node. Start it again, and resume."""

    code = "cluster_lost"


class UnauthorizedError(LodestoneError):
    """The request does not identify a caller: its key or token is missing, unknown, expired, revoked or forged."""

    code = "unauthorized"
    status = 401
    exit_code = 19


class ForbiddenError(LodestoneError):
    """The caller may not do this: the key lacks a scope."""

    code = "forbidden"
    status = 403
    exit_code = 20


class OverloadedError(LodestoneError):
    """The service or one of its stages already runs and queues as many queries as allowed. Wait, and retry."""

    code = "overloaded"
    status = 429
    exit_code = 21


class RateLimitedError(OverloadedError):
    """One key, or one address, sent more requests than allowed. `retry_after` in the details says how many seconds to wait."""

    code = "rate_limited"


class IdempotencyConflictError(LodestoneError):
    """The same Idempotency-Key came with another body, or while the first request was still in progress."""

    code = "idempotency_conflict"
    status = 409
    exit_code = 22


class FetchRefusedError(LodestoneError):
    """A picture's URL may not be fetched: fetching is off, or the URL leads to an address that is not public."""

    code = "fetch_refused"
    status = 422
    exit_code = 23
