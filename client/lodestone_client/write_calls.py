"""Calls that change something: feedback, tags, directories, corpora, runs and keys. Most are safe to send twice."""

from __future__ import annotations

import uuid
from dataclasses import replace

from lodestone_client.call import IDEMPOTENCY_KEY, Call, Repeat, T, as_model, as_nothing
from lodestone_client.read_calls import part
from lodestone_schemas.access import KeyCreated, KeyInfo, KeyRequest, KeyRotation
from lodestone_schemas.api import (
    CorpusRename,
    CorpusRenamed,
    DuplicatesRequest,
    FeedbackRequest,
    FeedbackResult,
    SyncProgress,
    SyncRequest,
    TagList,
    TagRequest,
    VerifyRequest,
)
from lodestone_schemas.directories import (
    DirectoryAdded,
    DirectoryChange,
    DirectoryInfo,
    DirectoryRelocation,
    DirectoryRequest,
    DirectorySplit,
    JobInfo,
)
from lodestone_schemas.runs import RunInfo
from lodestone_schemas.swaps import ShadowRequest, ShadowResult


def _keyed(call: Call[T], key: str | None) -> Call[T]:
    """Return the call with an idempotency key: it is done once, however often it arrives."""
    headers = {**call.headers, IDEMPOTENCY_KEY: key or uuid.uuid4().hex}
    return replace(call, headers=headers, repeat=Repeat.KEYED)


def feedback(request: FeedbackRequest, key: str | None) -> Call[FeedbackResult]:
    """Return the call that judges an answer."""
    return _keyed(Call("POST", "/v1/feedback", as_model(FeedbackResult), body=request), key)


def add_tags(request: TagRequest, key: str | None) -> Call[TagList]:
    """Return the call that tags pictures by hand."""
    return _keyed(Call("POST", "/v1/tags", as_model(TagList), body=request), key)


def remove_tag(tag_id: str, key: str | None) -> Call[None]:
    """Return the call that removes one tag."""
    return _keyed(Call("DELETE", f"/v1/tags/{part(tag_id)}", as_nothing), key)


def add_directory(request: DirectoryRequest, key: str | None) -> Call[DirectoryAdded]:
    """Return the call that adds a folder of the service's machine."""
    return _keyed(Call("POST", "/v1/directories", as_model(DirectoryAdded), body=request), key)


def change_directory(directory_id: str, change: DirectoryChange, key: str | None) -> Call[DirectoryInfo]:
    """Return the call that switches a directory or its watching on or off."""
    return _keyed(Call("PATCH", f"/v1/directories/{part(directory_id)}", as_model(DirectoryInfo), body=change), key)


def split_directory(directory_id: str, request: DirectorySplit, key: str | None) -> Call[DirectoryInfo]:
    """Return the call that makes a folder inside a directory one of its own; it may take minutes."""
    path = f"/v1/directories/{part(directory_id)}/split"
    return _keyed(Call("POST", path, as_model(DirectoryInfo), body=request, endless=True), key)


def relocate_directory(directory_id: str, request: DirectoryRelocation, key: str | None) -> Call[DirectoryAdded]:
    """Return the call that tells where a directory's folder is now; it may take minutes."""
    path = f"/v1/directories/{part(directory_id)}/relocate"
    return _keyed(Call("POST", path, as_model(DirectoryAdded), body=request, endless=True), key)


def index_directory(directory_id: str, key: str | None, *, retry_failed: bool) -> Call[JobInfo]:
    """Return the call that indexes a directory in the background."""
    params = {"retry_failed": "true" if retry_failed else None}
    return _keyed(Call("POST", f"/v1/directories/{part(directory_id)}/index", as_model(JobInfo), params=params), key)


def remove_image(image_id: str, key: str | None) -> Call[None]:
    """Return the call that removes a picture; it may take minutes."""
    return _keyed(Call("DELETE", f"/v1/images/{part(image_id)}", as_nothing, endless=True), key)


def remove_directory(directory_id: str, key: str | None) -> Call[None]:
    """Return the call that forgets a directory; it may take minutes."""
    return _keyed(Call("DELETE", f"/v1/directories/{part(directory_id)}", as_nothing, endless=True), key)


def cancel_job(job_id: str) -> Call[JobInfo]:
    """Return the call that cancels a background job; cancelling it twice does no harm."""
    return Call("DELETE", f"/v1/jobs/{part(job_id)}", as_model(JobInfo))


def cancel_run(run_id: str) -> Call[RunInfo]:
    """Return the call that cancels a run; cancelling it twice does no harm."""
    return Call("POST", f"/v1/runs/{part(run_id)}/cancel", as_model(RunInfo))


def rename_corpus(name: str, new: str) -> Call[CorpusRenamed]:
    """Return the call that renames a corpus; a second one would find no corpus of the old name."""
    return Call(
        "PATCH", f"/v1/corpora/{part(name)}", as_model(CorpusRenamed), body=CorpusRename(name=new), repeat=Repeat.NEVER,
        endless=True,
    )  # fmt: skip


def remove_corpus(name: str) -> Call[None]:
    """Return the call that removes a corpus; it may take minutes, and a second one would find nothing to remove."""
    return Call("DELETE", f"/v1/corpora/{part(name)}", as_nothing, repeat=Repeat.NEVER, endless=True)


def create_key(request: KeyRequest) -> Call[KeyCreated]:
    """Return the call that creates a key; sent twice, it would create two."""
    return Call("POST", "/v1/keys", as_model(KeyCreated), body=request, repeat=Repeat.NEVER)


def rotate_key(key_id: str, rotation: KeyRotation | None) -> Call[KeyCreated]:
    """Return the call that rotates a key; sent twice, it would create two."""
    path = f"/v1/keys/{part(key_id)}/rotate"
    return Call("POST", path, as_model(KeyCreated), body=rotation or KeyRotation(), repeat=Repeat.NEVER)


def revoke_key(key_id: str) -> Call[KeyInfo]:
    """Return the call that revokes a key; revoking it twice does no harm."""
    return Call("DELETE", f"/v1/keys/{part(key_id)}", as_model(KeyInfo))


def find_duplicates(request: DuplicatesRequest | None) -> Call[None]:
    """Return the call that looks for copies; sent twice, the second one goes on or finds the same."""
    return Call("POST", "/v1/internal/duplicates", as_nothing, body=request or DuplicatesRequest(), endless=True)


def verify(request: VerifyRequest | None) -> Call[None]:
    """Return the call that compares the collections; it changes nothing."""
    return Call("POST", "/v1/internal/verify", as_nothing, body=request or VerifyRequest(), endless=True)


def sync(request: SyncRequest | None) -> Call[None]:
    """Return the call that brings collections in line; sent twice, the second one has nothing to do."""
    return Call("POST", "/v1/internal/sync", as_nothing, body=request or SyncRequest(), endless=True)


def progress_of(line: bytes) -> SyncProgress:
    """Return one line of a sync's answer as its progress."""
    return SyncProgress.model_validate_json(line, extra="ignore")


def shadow(request: ShadowRequest) -> Call[ShadowResult]:
    """Return the call that compares both versions of a space; it may take minutes."""
    return Call("POST", "/v1/internal/shadow", as_model(ShadowResult), body=request, repeat=Repeat.NEVER, endless=True)
