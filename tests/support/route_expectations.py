"""What the HTTP routes are expected to do, written down apart from the product's own table of policies."""

from __future__ import annotations

import re

import pytest
from tests.support.fake_services import KNOWN_ID

from lodestone_serve.policy import TABLE, DeadlineRule, RoutePolicy

MB = 2**20
EVERY_ROUTE = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)

# What a change of the table must not change by mistake. Whatever is not listed has the usual value.
PAGES = {"GET /", "GET /docs", "GET /manage", "GET /docs/assets/{name}", "GET /web/files/{name:path}"}
SESSIONS = {"POST /v1/session", "DELETE /v1/session", "POST /v1/session/unlock"}
NO_SCOPE = {"GET /healthz", "GET /readyz", "GET /metrics", "GET /openapi.json", "GET /v1/status", *PAGES, *SESSIONS}
OTHER_SCOPES = {
    "POST /v1/feedback": "search feedback",
    "POST /v1/feedback/withdraw": "search feedback",
    "POST /v1/tags": "search feedback",
    "DELETE /v1/tags/{tag_id}": "search feedback",
    "POST /v1/directories": "search index",
    "PATCH /v1/directories/{directory_id}": "search index",
    "DELETE /v1/directories/{directory_id}": "search index",
    "DELETE /v1/images/{image_id}": "search index",
    "POST /v1/directories/{directory_id}/index": "search index",
    "POST /v1/directories/{directory_id}/relocate": "search index",
    "POST /v1/directories/{directory_id}/split": "search index",
    "DELETE /v1/jobs/{job_id}": "search index",
    "POST /v1/runs/{run_id}/cancel": "search index",
    "PATCH /v1/corpora/{name:path}": "index",
    "DELETE /v1/corpora/{name:path}": "index",
    "POST /v1/internal/duplicates": "index",
    "POST /v1/internal/verify": "index",
    "POST /v1/internal/sync": "index",
    "POST /v1/internal/shadow": "index",
    "GET /v1/keys": "admin",
    "POST /v1/keys": "admin",
    "POST /v1/keys/{key_id}/rotate": "admin",
    "DELETE /v1/keys/{key_id}": "admin",
}
ADMITTED = {
    "GET /v1/search",
    "POST /v1/search",
    "POST /v1/search/image",
    "POST /v1/search/url",
    "POST /v1/search/stream",
    "GET /v1/images/{image_id}/similar",
    "GET /v1/images/{image_id}/tags",
    "POST /v1/images/tags",
    "POST /v1/queries/{query_id}/replay",
    "POST /v1/embeddings",
    "POST /v1/images/generations",
}
IDEMPOTENT = {
    "POST /v1/feedback",
    "POST /v1/feedback/withdraw",
    "POST /v1/tags",
    "DELETE /v1/tags/{tag_id}",
    "POST /v1/directories",
    "PATCH /v1/directories/{directory_id}",
    "DELETE /v1/directories/{directory_id}",
    "DELETE /v1/images/{image_id}",
    "POST /v1/directories/{directory_id}/index",
    "POST /v1/directories/{directory_id}/relocate",
    "POST /v1/directories/{directory_id}/split",
}
BODIES = {
    "POST /v1/search/image": ("multipart/form-data", MB + 256 * 1024),
    "POST /v1/images/tags": ("multipart/form-data", MB + 256 * 1024),
    "POST /v1/embeddings": ("application/json", MB),
    "POST /v1/search/batch": ("application/x-ndjson", 2 * MB),
}
DEADLINES = {
    "GET /v1/search": DeadlineRule.QUERY,
    "POST /v1/search": DeadlineRule.QUERY,
    "POST /v1/search/image": DeadlineRule.QUERY,
    "POST /v1/search/url": DeadlineRule.QUERY,
    "POST /v1/search/stream": DeadlineRule.QUERY,
    "GET /v1/search/stream/{query_id}": DeadlineRule.QUERY,
    "GET /v1/images/{image_id}/similar": DeadlineRule.QUERY,
    "GET /v1/images/{image_id}/tags": DeadlineRule.QUERY,
    "POST /v1/images/tags": DeadlineRule.QUERY,
    "POST /v1/search/batch": DeadlineRule.LINES,
    "POST /v1/queries/{query_id}/replay": DeadlineRule.LONGEST,
    "POST /v1/images/generations": DeadlineRule.LONGEST,
    "PATCH /v1/corpora/{name:path}": DeadlineRule.ENDLESS,
    "DELETE /v1/corpora/{name:path}": DeadlineRule.ENDLESS,
    "DELETE /v1/directories/{directory_id}": DeadlineRule.ENDLESS,
    "DELETE /v1/images/{image_id}": DeadlineRule.ENDLESS,
    "POST /v1/directories/{directory_id}/relocate": DeadlineRule.ENDLESS,
    "POST /v1/directories/{directory_id}/split": DeadlineRule.ENDLESS,
    "POST /v1/internal/shadow": DeadlineRule.ENDLESS,
}
PROBES = {"GET /healthz", "GET /readyz"}
WITHOUT_KEY = {*PROBES, *PAGES, "GET /openapi.json"}
WITHOUT_RATE = {*WITHOUT_KEY, "GET /metrics", "POST /v1/session", "DELETE /v1/session"}
UNOBSERVED = {*PROBES, "GET /metrics", "GET /web/files/{name:path}"}


def path_of(row: RoutePolicy) -> str:
    """Return a path of the route, with its parameters filled in."""
    files = {"assets": "pages.css", "files": "main.js"}
    named = next((name for folder, name in files.items() if f"/{folder}/" in row.path), KNOWN_ID)
    return re.sub(r"\{[^}]+\}", named, row.path)
