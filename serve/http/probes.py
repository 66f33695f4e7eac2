"""Routes for those who watch the server."""

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from memeloom.serve.http.metrics import CONTENT_TYPE, Metrics

router: Final = APIRouter(tags=["operation"])


@router.get("/healthz", response_class=PlainTextResponse)
async def health() -> str:
    """Answer as long as the server runs."""
    return "ok"


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request) -> Response:
    """Return the server's measurements for Prometheus."""
    measured: Metrics = request.app.state.metrics
    return Response(measured.text(), media_type=CONTENT_TYPE)
