"""What is captioned: a template by any of its names, an uploaded picture, or one of the web."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import cv2
import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from memeloom.catalog.errors import BadImage
from memeloom.catalog.records import Template
from memeloom.dataset.reader import rgb_pixels
from memeloom.serve.captions.request import CaptionRequest
from memeloom.serve.http.captioning.bodies import CaptionBody
from memeloom.serve.http.captioning.writing import Captioning
from memeloom.serve.http.payloads import validated
from memeloom.serve.http.pictures.plan import Source
from memeloom.serve.http.problems import Problem
from memeloom.serve.http.resources import Resources
from memeloom.serve.http.templates import TemplateLookup, capacity

M = TypeVar("M", bound=BaseModel)

_FORM: Final = "multipart/form-data"
_JSON: Final = "application/json"
_UPLOAD: Final = "image"
_MOST_FIELDS: Final = 50
# The longest side of a picture that waits for the model, which shrinks it to the side of its network: those that
# KerasHub has are up to 896.
_LONGEST_SIDE: Final = 896


@dataclass(frozen=True, slots=True)
class Subject:
    """What is captioned.

    request: for the model. template: of the catalog. picture: an uploaded or fetched one. field: that names it.
    """

    request: CaptionRequest
    template: Template | None
    picture: Source | None
    field: str = "template"


async def read_body(request: Request, model: type[M]) -> tuple[M, bytes | None]:
    """Return a JSON object or a form as a `model`, and the uploaded picture of a form.

    Raises:
        Problem: 400 the body cannot be read, 415 another type, 422 a field.
    """
    kind = request.headers.get("content-type", _JSON).partition(";")[0].strip().lower()
    if kind == _FORM:
        fields, upload = await _form(request)
        return validated(model, fields), upload
    if kind != _JSON:
        raise Problem(415, "Unknown type", f"send {_JSON} or {_FORM}", "content-type")
    try:
        body = from_json(await request.body())
    except ValueError:
        raise Problem(400, None, "the body is not JSON", "body") from None
    if not isinstance(body, dict):
        raise Problem(422, None, "body: write a JSON object", "body")
    return validated(model, body), None


async def _form(request: Request) -> tuple[dict[str, Any], bytes | None]:
    try:
        async with request.form(max_files=1, max_fields=_MOST_FIELDS) as form:
            upload = form.get(_UPLOAD)
            data = await upload.read() if isinstance(upload, UploadFile) else None
            return {name: value for name, value in form.items() if isinstance(value, str)}, data
    except (MultiPartException, HTTPException, UnicodeDecodeError, ValueError):
        raise Problem(400, None, "the form cannot be read", "body") from None


async def find_subject(
    resources: Resources, captioning: Captioning, body: CaptionBody, upload: bytes | None, *, drawn: bool = False
) -> Subject:
    """Resolve what a request names.

    Args:
        resources: of the server.
        captioning: its model.
        body: the request.
        upload: the uploaded picture.
        drawn: the captions are to fit the text boxes of the catalog's template, else those that the model learned.

    Raises:
        Problem: 404 unknown template, 415 an unusable picture, 422 neither template nor picture, or a picture for a
            model that takes none.
    """
    if upload is not None:
        captioning.check_takes_pictures("image")
        return await _pictured(resources, captioning, body, upload, "image")
    if body.image_url is not None:
        captioning.check_takes_pictures("image_url")
        data = await resources.fetcher.fetch(body.image_url, "image_url")
        return await _pictured(resources, captioning, body, data, "image_url")
    if body.template is None:
        raise Problem(422, None, "template: name a template, or send a picture as image or image_url", "template")
    lookup = await resources.templates()
    found = lookup.find(body.template)
    if found is None:  # the model may have learned templates that this catalog lacks
        if body.boxes is None and captioning.lacks(body.template):
            raise _unknown(lookup, body.template)
        return Subject(body.request(body.template, captioning.defaults), None, None)
    wanted = body.request(found.id, captioning.defaults)
    known = found.id in await captioning.known_ids()
    if wanted.settings.boxes is None and (drawn or not known):
        settings = wanted.settings.model_copy(update={"boxes": capacity(found)})
        wanted = replace(wanted, template=found.id if known else found.name, settings=settings)
    return Subject(wanted, found, None)


async def _pictured(
    resources: Resources, captioning: Captioning, body: CaptionBody, data: bytes, field: str
) -> Subject:
    pixels = await resources.run(_pixels, data, 4 * resources.config.serve.max_pixels, field)
    wanted = body.request(body.template or "picture", captioning.defaults)
    return Subject(replace(wanted, picture=pixels), None, Source(hashlib.sha256(data).hexdigest(), data), field)


def _pixels(data: bytes, most: int, field: str) -> NDArray[np.uint8]:
    """Return a picture, no larger than a model needs: many may wait for it, and each may have been 48 MB."""
    try:
        pixels = rgb_pixels(data, max_pixels=most)
    except BadImage as error:
        raise Problem(415, None, f"{field}: the picture cannot be used: {error.reason}", field) from None
    height, width = (min(side, _LONGEST_SIDE) for side in pixels.shape[:2])
    if (height, width) == pixels.shape[:2]:
        return pixels
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def _unknown(lookup: TemplateLookup, name: str) -> Problem:
    near = lookup.nearest(name)
    hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
    return Problem(404, "Unknown template", f"no such template: {name[:80]!r}{hint}", "template", nearest=near)


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI of a body that is JSON, or a form with a picture, for a route's `openapi_extra`."""
    schema = model.model_json_schema()
    uploaded = {"type": "string", "format": "binary", "description": "Picture to caption."}
    form = {
        **{key: value for key, value in schema.items() if key != "anyOf"},
        "properties": {**schema["properties"], _UPLOAD: uploaded},
        "required": [_UPLOAD],
    }
    content = {_JSON: {"schema": schema}, _FORM: {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}
