"""Captions for HTTP requests: the model, its service, and their errors as problems."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from memeloom.catalog.feed import Feed
from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Config
from memeloom.serve.captions.errors import (
    CaptionsRefused,
    CaptionsUnavailable,
    DeadlineExceeded,
    NoCaption,
    NoModel,
    UnknownModel,
    UnknownTemplate,
)
from memeloom.serve.captions.models import WatchedModel
from memeloom.serve.captions.ready import READY, ReadyCaptions
from memeloom.serve.captions.request import CaptionRequest
from memeloom.serve.captions.served import ServedModel
from memeloom.serve.captions.service import CaptionService, NextTokens, Observed, Writer, Written
from memeloom.serve.http.metrics import Metrics
from memeloom.serve.http.middleware.limits import DEADLINE
from memeloom.serve.http.problems import Problem

T = TypeVar("T")
log = logging.getLogger(__name__)


class Captioning:
    """The model and its service, as routes use them. Created when the server starts. documents: the catalog."""

    def __init__(self, config: Config, watched: WatchedModel, metrics: Metrics, documents: Feed) -> None:
        self.watched = watched
        self.defaults = config.generate.model_copy(update={"best_of": config.serve.best_of})
        self._most = config.serve.captions_per_request
        self._service = CaptionService(config.serve, watched.writer, Observed(metrics.batch, metrics.wait))
        self._ready = ReadyCaptions(config, documents)
        watched.start()

    def close(self) -> None:
        """Stop the model's thread after the batch in progress."""
        self._service.close()
        self.watched.stop()
        self._ready.close()

    @property
    def has_model(self) -> bool:
        """Return whether captions can be written."""
        return self._served() is not None

    async def known_ids(self) -> frozenset[str]:
        """Return the ids of the templates that the model learned, without a model those of the table."""
        served = self._served()
        return await asyncio.to_thread(self._ready.ids) if served is None else served.known_ids

    def lacks(self, template: str) -> bool:
        """Return whether there is a model, and it has not learned a template of this id, slug or name."""
        served = self._served()
        return served is not None and served.find(template) is None

    def check_takes_pictures(self, field: str) -> None:
        """Check that pictures can be captioned. Raises Problem, which names `field`."""
        with captions_problems():
            served = self.watched.served
            if not served.model.uses_pictures:
                raise CaptionsRefused(field, f"the model, a {served.kind}, does not take pictures; name a template")

    def _served(self) -> ServedModel | None:
        try:
            return self.watched.served
        except NoModel:
            return None

    async def write(self, wanted: CaptionRequest, deadline: float) -> Written:
        """Write captions; they are dropped if the calling task is cancelled before they are begun.

        Without a model they come from the table that `memeloom generate --all` filled, if it has some.

        Args:
            wanted: what to write.
            deadline: of `time.monotonic`.

        Raises:
            Problem: 404 unknown template or model, 422 a field, 503 no model, full queue or deadline.
        """
        if wanted.asked > self._most:
            field = "count" if wanted.settings.captions > self._most else "best_of"
            raise Problem(422, None, f"{field}: at most {self._most} captions a request", field)
        if wanted.model == READY or not self.has_model:
            ready = await asyncio.to_thread(self._ready.captions, wanted)
            if ready is not None:
                return ready
        with captions_problems():
            # Before it is queued: raises without a model, and for another one.
            self.watched.served.check_name(wanted.model)
            answer = asyncio.wrap_future(self._service.submit(wanted, deadline))
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    return await answer
            except TimeoutError:
                raise DeadlineExceeded("the captions were not written in time") from None

    async def next_tokens(self, model: str, texts: list[str], templates: list[str], deadline: float) -> NextTokens:
        """Return the next token after each text. model: its kind or version. Raises Problem."""

        def call(writer: Writer) -> NextTokens:
            writer.served.check_name(model)  # it may have been replaced
            return writer.next_tokens(texts, templates, deadline)

        with captions_problems():
            self.watched.served.check_name(model)
            return await asyncio.wrap_future(self._service.call(call, len(texts), deadline))


async def captioning_of(request: Request) -> Captioning:
    """Return the model of the server that handles `request`, for ``Depends``."""
    captioning: Captioning = request.app.state.captioning
    return captioning


Model = Annotated[Captioning, Depends(captioning_of)]


def deadline_of(request: Request) -> float:
    """Return the time, of `time.monotonic`, by which a request has to be answered."""
    deadline: float = request.scope[DEADLINE]
    return deadline


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Return the result of `work`, which is cancelled if the client goes away. The body must have been read."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Problem(400, "Client closed the request", "the client went away")
    finally:
        gone.cancel()
        task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@contextmanager
def captions_problems() -> Iterator[None]:
    """Turn the errors of captions into problems."""
    try:
        yield
    except MemeloomError as error:
        raise problem_of_captions(error) from error


def problem_of_captions(error: MemeloomError) -> Problem:
    """Return the problem that says why there are no captions."""
    match error:
        case UnknownTemplate():
            return Problem(404, "Unknown template", str(error), error.field)
        case UnknownModel():
            return Problem(404, "Unknown model", str(error), error.field)
        case CaptionsRefused():
            return Problem(422, None, f"{error.field}: {error}", error.field)
        case NoCaption():
            return Problem(422, "No caption", f"{error}; try again, or with other settings", None)
        case CaptionsUnavailable():
            return Problem(503, None, str(error), headers={"Retry-After": str(error.retry_after)})
        case _:
            log.error("captions could not be written", exc_info=error)
            return Problem(503, None, "the model failed; its log says why", headers={"Retry-After": "1"})
