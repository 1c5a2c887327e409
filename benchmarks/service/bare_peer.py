"""Smallest server of searches that could be written: FastAPI, MiniLM on ONNX Runtime, and a matrix a space.

It reads no filter, keeps no record, knows no caller, and has neither captions nor limits. What it shares with the service is
what no server could do without: the words are encoded by the same model, every vector of both spaces is multiplied, and twenty
pictures are returned as JSON. With guides, ten further vectors are multiplied in each space and their scores are averaged.

It runs as a program: `python -m benchmarks.service.bare_peer POINTS DIM [DIM ...]`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI

from benchmarks.data.filled_home import context
from lodestone.text_encoders.registry import make_text_encoder

GUIDES, SHOWN = 10, 20


def make_peer(points: int, dims: list[int]) -> FastAPI:
    """Return the application.

    Args:
        points: Vectors in each space.
        dims: Their lengths, a space each.
    """
    encoder = make_text_encoder("minilm", context())
    encoder.warm_up(threads=1)
    rng = np.random.default_rng(0)
    spaces = [rng.standard_normal((points, dim), np.float32) for dim in dims]
    bridges = [rng.standard_normal((encoder.dim, dim), np.float32) for dim in dims]
    guides = [rng.standard_normal((GUIDES, dim), np.float32) for dim in dims]
    app = FastAPI()

    @app.post("/v1/search")
    def search(body: dict[str, Any]) -> dict[str, Any]:
        words = encoder.encode([body["query"]])
        scores = np.zeros(points, np.float32)
        for matrix, bridge, drawn in zip(spaces, bridges, guides, strict=True):
            asked = words @ bridge if body.get("guides") == 0 else np.concatenate([words @ bridge, drawn])
            scores += (matrix @ asked.T).mean(axis=1)
        best = np.argpartition(-scores, SHOWN)[:SHOWN]
        best = best[np.argsort(-scores[best])]
        return {"hits": [{"image_id": f"{row:032x}", "score": float(scores[row]), "uri": f"{row}.jpg"} for row in best]}

    return app


def main() -> None:
    """Serve on a free port of this machine, and print the address as the service does."""
    points, *dims = (int(given) for given in sys.argv[1:])
    config = uvicorn.Config(make_peer(points, dims), host="127.0.0.1", port=0, log_level="warning")

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:  # noqa: ANN401 - as uvicorn declares it
            await super().startup(sockets)
            print(f"ready http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}", flush=True)

    Announcing(config).run()


if __name__ == "__main__":
    main()
