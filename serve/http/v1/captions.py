"""`/v1/captions`: captions as JSON."""

from typing import Final

from fastapi import APIRouter, Request

from memeloom.serve.http.captioning.bodies import CaptionBody, Captions
from memeloom.serve.http.captioning.subjects import body_schema, find_subject, read_body
from memeloom.serve.http.captioning.writing import Model, deadline_of, unless_gone
from memeloom.serve.http.problems import problem_responses
from memeloom.serve.http.resources import Shared

router: Final = APIRouter(prefix="/v1", tags=["Captions"])


@router.post(
    "/captions",
    responses=problem_responses(400, 404, 413, 415, 422, 503),
    openapi_extra=body_schema(CaptionBody),
    summary="Captions for a template or picture",
)
async def write_captions(request: Request, shared: Shared, captioning: Model) -> Captions:
    """Write captions for a template, or for a picture: `image` of a form, or `image_url`, a public address.

    A template that the model never learned gets captions as an unknown one. Pictures need a model that was trained with
    them.
    """
    body, upload = await read_body(request, CaptionBody)
    subject = await find_subject(shared, captioning, body, upload)
    written = await unless_gone(request, captioning.write(subject.request, deadline_of(request)))
    return Captions.of(written)
