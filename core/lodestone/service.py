"""Is a Lodestone service running for this home, and how is it asked?

The service owns the embedded store while it runs and says where it is in `service.json` (mode 0600: it holds the token of the
internal routes). A file left behind by a service that died is recognised by its process id, or by nobody (or somebody else)
answering at its address, and is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from lodestone.config.home import Home
from lodestone.errors import InvalidRequestError, LodestoneError, ServiceUnavailableError
from lodestone.processes import is_running
from lodestone_schemas.api import (
    CorpusPage,
    EngineList,
    Event,
    FeedbackRequest,
    FeedbackResult,
    ImageInfo,
    Problem,
    ReplayResult,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    SyncProgress,
    SyncRequest,
)
from lodestone_schemas.directories import JobInfo, JobList
from lodestone_schemas.service import Alive, ServiceStatus
from lodestone_schemas.swaps import ShadowRequest, ShadowResult

if TYPE_CHECKING:
    import httpx

TOKEN_HEADER = "X-Lodestone-Token"  # noqa: S105 - the name of a header
_PROBE_S = 2.0
_MARGIN_S = 15.0  # beyond a query's own deadline: to be admitted, read out and sent


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """What service.json says: where the service of one home answers, who it is, and the token of its internal routes."""

    url: str
    pid: int
    token: str
    version: str
    started_at: datetime

    def write(self, home: Home) -> None:
        """Publish the address: readable by this user alone, and never half written."""
        temporary = home.service.with_suffix(f".{os.getpid()}")
        record = {**asdict(self), "started_at": self.started_at.isoformat()}
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(record, file)
        temporary.replace(home.service)

    def withdraw(self, home: Home) -> None:
        """Remove the published address if it is still this one."""
        if read_address(home) == self:
            home.service.unlink(missing_ok=True)


def instance_of(token: str) -> str:
    """Names one run of a service without giving its token away."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


def read_address(home: Home) -> ServiceAddress | None:
    """What service.json says, true or not; None when there is none or it cannot be understood."""
    try:
        record = json.loads(home.service.read_text(encoding="utf-8"))
        return ServiceAddress(
            url=str(record["url"]),
            pid=int(record["pid"]),
            token=str(record["token"]),
            version=str(record["version"]),
            started_at=datetime.fromisoformat(record["started_at"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None  # missing, from another version, or cut short: as good as no service


def find_service(home: Home, *, timeout_s: float = _PROBE_S) -> ServiceAddress | None:
    """The running service of `home`, or None: no file, a dead process, no answer, or another service's answer."""
    address = read_address(home)
    if address is None or not is_running(address.pid):
        return None
    import httpx

    try:
        answer = httpx.get(f"{address.url}/healthz", timeout=timeout_s, trust_env=False)
        alive = Alive.model_validate_json(answer.content)
    except (httpx.HTTPError, ValueError):
        return None
    return address if alive.instance == instance_of(address.token) else None


class ServiceClient:
    """Asks a running service. Raises what the service's problem says, as the same `LodestoneError` it was there.

    Args:
        address: From `find_service`.
        timeout_s: Seconds to wait for a whole answer; streams may pause for that long between two events. A query with a longer
            deadline is waited for; removing a corpus and a sync are waited for without end, while the service lives.

    Raises:
        ServiceUnavailableError: from every method, when the service does not answer (any more).
    """

    def __init__(self, address: ServiceAddress, *, timeout_s: float = 60.0) -> None:
        import httpx

        self.address = address
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            base_url=address.url,
            timeout=httpx.Timeout(timeout_s, connect=_PROBE_S),
            trust_env=False,  # a proxy from the environment has no business between two processes of one machine
            headers={"User-Agent": f"lodestone/{address.version}"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections."""
        self._http.close()

    def search(self, request: SearchRequest) -> SearchResponse:
        """The final answer to a query in words."""
        return SearchResponse.model_validate_json(self._post("/v1/search", request, content=request.model_dump_json()))

    def stream(self, request: SearchRequest) -> Iterator[Event]:
        """The events of a query in words. An `error` event is raised as the error it carries."""
        from pydantic import TypeAdapter

        events: TypeAdapter[Event] = TypeAdapter(Event)
        for data in self._lines(
            "/v1/search/stream", request.model_dump_json(), prefix="data:", timeout=self._patience(request)
        ):
            event = events.validate_json(data)
            if event.type == "error":
                raise error_of(event.problem.model_dump())
            yield event

    def similar(self, image_id: str, options: SearchOptions) -> SearchResponse:
        """Pictures like an indexed one."""
        chosen = options.model_dump(mode="json", exclude_none=True)
        params = {**chosen.pop("filters"), **chosen}
        return SearchResponse.model_validate_json(self._get(f"/v1/images/{image_id}/similar", params, options))

    def by_picture(self, picture: bytes, options: SearchOptions) -> SearchResponse:
        """Pictures like the one in `picture`, a picture file's content."""
        files = {"image": ("picture", picture, "application/octet-stream")}
        form = {"options": options.model_dump_json()}
        return SearchResponse.model_validate_json(self._post("/v1/search/image", options, files=files, data=form))

    def image(self, image_id: str) -> ImageInfo:
        """What is known about one picture."""
        return ImageInfo.model_validate_json(self._get(f"/v1/images/{image_id}"))

    def corpora(self, offset: int = 0, limit: int = 50) -> CorpusPage:
        """One page of the corpora."""
        return CorpusPage.model_validate_json(self._get("/v1/corpora", {"offset": offset, "limit": limit}))

    def remove_corpus(self, name: str) -> None:
        """Remove a corpus everywhere."""
        from urllib.parse import quote

        path = f"/v1/corpora/{quote(name, safe='')}"
        self._request("DELETE", path, headers=self._token, timeout=_endless())

    def index_directory(self, directory_id: str) -> JobInfo:
        """Have the service bring a directory up to date in the background."""
        path = f"/v1/directories/{directory_id}/index"
        return JobInfo.model_validate_json(self._request("POST", path, headers=self._token, timeout=self._patience()))

    def remove_directory(self, directory_id: str) -> None:
        """Forget a directory; what is being indexed of it is stopped."""
        self._request("DELETE", f"/v1/directories/{directory_id}", headers=self._token, timeout=_endless())

    def jobs(self) -> JobList:
        """What the service indexes in the background."""
        return JobList.model_validate_json(self._get("/v1/jobs"))

    def cancel_job(self, job_id: str) -> JobInfo:
        """Take back or stop one piece of background indexing."""
        answer = self._request("DELETE", f"/v1/jobs/{job_id}", headers=self._token, timeout=self._patience())
        return JobInfo.model_validate_json(answer)

    def replay(self, query_id: str, *, fresh: bool) -> ReplayResult:
        """A recorded query's ranking once more; `fresh`: asked again of the collection as it is now."""
        path = f"/v1/queries/{query_id}/replay"
        answer = self._request("POST", path, params={"fresh": fresh}, timeout=self._patience())
        return ReplayResult.model_validate_json(answer)

    def feedback(self, request: FeedbackRequest) -> FeedbackResult:
        """Say which pictures of an answer were right and which were not."""
        headers = {"Content-Type": "application/json"}
        content = request.model_dump_json()
        answer = self._request("POST", "/v1/feedback", content=content, headers=headers, timeout=self._patience())
        return FeedbackResult.model_validate_json(answer)

    def generators(self) -> EngineList:
        """The service's guide engines, their breakers, and its guide cache."""
        return EngineList.model_validate_json(self._get("/v1/generators"))

    def status(self) -> ServiceStatus:
        """What answers in the service right now."""
        return ServiceStatus.model_validate_json(self._get("/v1/status"))

    def shadow(self, request: ShadowRequest) -> ShadowResult:
        """Have the service compare both versions of a space that is being swapped; may take minutes."""
        headers = {"Content-Type": "application/json", **self._token}
        answer = self._request(
            "POST", "/v1/internal/shadow", content=request.model_dump_json(), headers=headers, timeout=_endless()
        )
        return ShadowResult.model_validate_json(answer)

    def sync(self, request: SyncRequest | None = None) -> Iterator[SyncProgress]:
        """Have the service bring its collections in line; yields every step, the last one `done`."""
        body = (request or SyncRequest()).model_dump_json()
        ended = False
        for line in self._lines("/v1/internal/sync", body, headers=self._token, timeout=_endless()):
            step = SyncProgress.model_validate_json(line)
            if step.type == "error" and step.problem is not None:
                raise error_of(step.problem.model_dump())
            ended = step.type == "done"
            yield step
        if not ended:
            raise ServiceUnavailableError(
                f"the service at {self.address.url} went away during a sync",
                hint="nothing is lost; run the same command again",
            )

    @property
    def _token(self) -> dict[str, str]:
        return {TOKEN_HEADER: self.address.token}

    def _patience(self, options: SearchOptions | None = None) -> httpx.Timeout:
        import httpx

        seconds = self._timeout_s
        if options is not None and options.deadline_ms is not None:
            seconds = max(seconds, options.deadline_ms / 1000 + _MARGIN_S)
        return httpx.Timeout(seconds, connect=_PROBE_S)

    def _get(self, path: str, params: Mapping[str, Any] | None = None, options: SearchOptions | None = None) -> bytes:
        return self._request("GET", path, params=params, timeout=self._patience(options))

    def _post(self, path: str, options: SearchOptions, **body: Any) -> bytes:  # noqa: ANN401 - httpx's own ways to give a body
        headers = {"Content-Type": "application/json"} if "content" in body else {}
        return self._request("POST", path, headers=headers, timeout=self._patience(options), **body)

    def _request(self, method: str, path: str, **arguments: Any) -> bytes:  # noqa: ANN401 - httpx's own arguments
        import httpx

        try:
            answer = self._http.request(method, path, **arguments)
        except httpx.HTTPError as error:
            raise self._unavailable(error) from error
        if answer.is_error:
            raise _error_in(answer)
        return answer.content

    def _lines(
        self, path: str, body: str, *, timeout: httpx.Timeout, prefix: str = "", headers: Mapping[str, str] | None = None
    ) -> Iterator[str]:
        import httpx

        sent = {"Content-Type": "application/json", **(headers or {})}
        try:
            with self._http.stream("POST", path, content=body, headers=sent, timeout=timeout) as answer:
                if answer.is_error:
                    answer.read()
                    raise _error_in(answer)
                for line in answer.iter_lines():
                    if line.startswith(prefix) and len(line) > len(prefix):
                        yield line[len(prefix) :].lstrip()
        except httpx.HTTPError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> ServiceUnavailableError:
        return ServiceUnavailableError(
            f"the service at {self.address.url} does not answer: {error or type(error).__name__}",
            hint="see whether `lodestone serve` still runs, or stop it and search without it",
        )


def _endless() -> httpx.Timeout:
    import httpx

    return httpx.Timeout(None, connect=_PROBE_S)


def error_of(problem: Mapping[str, Any]) -> LodestoneError:
    """The error that became `problem`, as its own class where this version has one with that code."""
    kinds = {kind.code: kind for kind in _kinds(LodestoneError)}
    status = int(problem.get("status", 500))
    fallback = ServiceUnavailableError if status in {502, 503, 504} else LodestoneError
    if 400 <= status < 500:
        fallback = InvalidRequestError
    kind = kinds.get(str(problem.get("code", "")), fallback)
    message = str(problem.get("detail") or problem.get("title") or "unknown problem")
    reserved = {*Problem.model_fields, "message"}
    extra = {name: value for name, value in problem.items() if name not in reserved}
    return kind(message, hint=str(problem.get("hint", "")), **extra)


def _error_in(answer: httpx.Response) -> LodestoneError:
    try:
        found = answer.json()
    except ValueError:
        found = None
    if isinstance(found, dict):
        return error_of(found)
    return error_of({"status": answer.status_code, "detail": f"HTTP {answer.status_code} from {answer.url.path}"})


def _kinds(root: type[LodestoneError]) -> Iterator[type[LodestoneError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)
