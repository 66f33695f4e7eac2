"""The HTTP application: its routes, its errors, its bounds, and what they work with."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from memeloom.configs.schema import Config
from memeloom.serve.captions.models import WatchedModel
from memeloom.serve.http import inference, probes
from memeloom.serve.http.captioning.writing import Captioning
from memeloom.serve.http.feed import api, create, pages
from memeloom.serve.http.feed.opening import is_public, open_feed
from memeloom.serve.http.imgflip import memes as imgflip_memes
from memeloom.serve.http.imgflip import templates as imgflip_templates
from memeloom.serve.http.memegen import create as memegen_create
from memeloom.serve.http.memegen import images, lists
from memeloom.serve.http.metrics import MeasureRequests, Metrics
from memeloom.serve.http.middleware.admission import ADMISSION, Admission, Concurrency, RefuseEarly
from memeloom.serve.http.middleware.answers import PROBES
from memeloom.serve.http.middleware.headers import SafeAnswers
from memeloom.serve.http.middleware.keys import Keys, read_keys
from memeloom.serve.http.middleware.limits import BodyLimit, Deadline
from memeloom.serve.http.openapi import describe_middleware
from memeloom.serve.http.problems import install_handlers
from memeloom.serve.http.resources import Resources
from memeloom.serve.http.v1 import batch, captions, catalog, memes, templates

_ROUTES = (
    memegen_create, lists, images, imgflip_templates, imgflip_memes, templates, captions, memes, batch, catalog,
    inference, probes,
)  # fmt: skip
_FEED = (api, create, pages)
# One in this number of concurrent requests may be a batch.
_BATCHES = 8


def create_app(config: Config) -> FastAPI:
    """Return the application that serves the catalog and the model of `config`.

    It opens the catalog and begins to load the model when it starts.

    Raises:
        ConfigError: `serve.keys_file` cannot be read.
    """
    metrics, serve, keys = Metrics(), config.serve, read_keys(config.serve)
    admission = Admission(serve.concurrency, {batch.PATH: max(1, serve.concurrency // _BATCHES)}, metrics.refused.inc)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with Resources(config) as resources:
            app.state.resources = resources
            captioning = Captioning(config, WatchedModel(config), metrics, resources.documents)
            app.state.captioning = captioning
            try:
                async with AsyncExitStack() as stack:
                    if config.feed.enabled:
                        opened = open_feed(config, resources, captioning, metrics)
                        app.state.feed = await stack.enter_async_context(opened)
                    yield {ADMISSION: admission}
            finally:
                await asyncio.to_thread(captioning.close)

    app = FastAPI(
        title="memeloom",
        version=version("memeloom"),
        lifespan=lifespan,
        middleware=_middleware(config, keys, metrics, admission),
    )
    app.state.metrics = metrics
    install_handlers(app)
    for module in (*_ROUTES, *(_FEED if config.feed.enabled else ())):
        app.include_router(module.router)
    describe_middleware(app, has_keys=bool(keys))
    return app


def _middleware(config: Config, keys: Mapping[str, str], metrics: Metrics, admission: Admission) -> list[Middleware]:
    """Return the middleware, outermost first."""
    serve, feed = config.serve, config.feed
    # The feed has budgets of its own.
    public = is_public if feed.enabled and (feed.public or not keys) else PROBES.__contains__
    cors = Middleware(
        CORSMiddleware, allow_origins=serve.origins, allow_methods=("GET", "POST"), allow_headers=("*",), max_age=600
    )
    return [
        Middleware(MeasureRequests, metrics),
        Middleware(SafeAnswers),
        *([cors] if serve.origins else []),
        Middleware(RefuseEarly, admission),
        Middleware(Keys, keys, serve.budget, serve.anonymous_budget, public),
        Middleware(Deadline, serve.deadline_seconds, {batch.PATH: serve.batch_seconds}),
        Middleware(BodyLimit, serve.max_body_bytes),
        # Behind the body: requests that are still being sent take no place.
        Middleware(Concurrency, admission),
    ]
