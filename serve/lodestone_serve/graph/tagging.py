"""The deployment `Tagging`, which tags single pictures with models of its own, and the adapter through which it is called.

It is off by default, because the ingress, or its `Encoders`, has the models anyway (docs/adr/0017). As a deployment, many
uploads to be tagged share neither processor nor queue with searches. The file's content is sent as it is: it is decoded there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodestone.errors import DeadlineExceededError
from lodestone_serve.graph.calls import StageCall, from_the_wire
from lodestone_serve.graph.replicas import Host, Replica, with_own_threads
from lodestone_serve.inference.shared_passes import Passes, SharedEncoder
from lodestone_serve.telemetry.tracing import Carrier, Tracing

if TYPE_CHECKING:
    from lodestone_schemas.pictures import PictureTags


class Tagging(Replica):
    """A replica of the deployment. It loads what labels need, and the safety model where its package is installed.

    Labels are those of the versions in force when the replica started.

    Args:
        host: Reads the settings.
    """

    def __init__(self, host: Host) -> None:
        from lodestone.home.runtime import Runtime
        from lodestone.tagging.tagger import label_space

        with host.noted():
            settings = with_own_threads(host.prepare())
            self._tracing = Tracing(settings.serve.telemetry, service="lodestone-tagging")
            runtime = Runtime.open(settings, purpose="a replica of Tagging")
            runtime.home.prepare()
            labels = label_space(runtime.serving_projections())
            versions = {} if labels is None else {labels.name: labels}
            passes = Passes.here(threads=settings.models.threads)
            encoder = runtime.local_encoder(versions, text_threads=passes.text_threads)
            encoder.load(pictures=True)
            self._tagger = runtime.tagger(SharedEncoder(encoder, passes=passes), versions)

    async def tag(self, picture: bytes, *, until: float | None = None, trace: Carrier | None = None) -> PictureTags:
        """Tag a picture, as `query.stages.Tagger.tag` does; `until` is the deadline on the wall clock."""
        with self._tracing.received(trace, "Tagging.tag"):
            return await self._tagger.tag(picture, deadline=from_the_wire(until))


class RemoteTagger:
    """Implements `query.stages.Tagger` by calling the deployment `Tagging`.

    Args:
        stage: The deployment.
    """

    def __init__(self, stage: StageCall) -> None:
        self._stage = stage

    async def tag(self, picture: bytes, *, deadline: float | None = None) -> PictureTags:
        """Tag a picture in a replica; raises as `Tagger.tag`, and OverloadedError when too many wait."""
        try:
            tags: PictureTags = await self._stage.call("tag", picture, deadline=deadline)
        except TimeoutError as error:
            raise DeadlineExceededError("the picture was not tagged in time", hint="allow more time") from error
        return tags
