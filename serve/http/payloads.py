"""Request bodies that may be JSON or a form, as clients of memegen and Imgflip send them."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from memeloom.serve.http.problems import Problem, invalid

M = TypeVar("M", bound=BaseModel)

_FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")
_MOST_FIELDS: Final = 500


async def form_of(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form, uploaded files left out.

    Raises:
        Problem: 400, the body is no form.
    """
    try:
        async with request.form(max_files=10, max_fields=_MOST_FIELDS) as form:
            fields: dict[str, list[str]] = {}
            for name, value in form.multi_items():
                if isinstance(value, str):
                    fields.setdefault(name, []).append(value)
            return fields
    except (MultiPartException, HTTPException, UnicodeDecodeError, ValueError):
        raise Problem(400, None, "the form cannot be read", "body") from None


async def payload_of(request: Request, lists: frozenset[str]) -> dict[str, Any]:
    """Return the members of a JSON object, or the fields of a form; nothing for an empty body.

    Args:
        request: with a JSON object, whatever its type is called, or a form.
        lists: fields of a form that may be repeated; of the others the last value counts. ``[]`` after a name is
            ignored.

    Raises:
        Problem: 400, the body is neither.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() in _FORMS:
        fields = await form_of(request)
        named = {name.removesuffix("[]"): values for name, values in fields.items()}
        return {name: values if name in lists else values[-1] for name, values in named.items()}
    data = await request.body()
    try:
        body = from_json(data) if data else {}
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Problem(400, None, "the body is neither a JSON object nor a form", "body")
    return {name.removesuffix("[]"): value for name, value in body.items()}


def validated(model: type[M], payload: dict[str, Any]) -> M:
    """Return `payload` as a `model`. Raises Problem (422) that names the fields."""
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        raise invalid(error.errors(include_input=False, include_url=False)) from None


def body_schema(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Return the OpenAPI of a body that may be JSON or a form, for a route's `openapi_extra`."""
    return _body_schema(model, ("application/json", _FORMS[0]), required)


def form_schema(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Return the OpenAPI of a form, for a route's `openapi_extra`."""
    return _body_schema(model, (_FORMS[0],), required)


def query_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI of the query parameters of a route that reads them as a `model`, for `openapi_extra`."""
    schema = model.model_json_schema()
    required = schema.get("required", [])
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in required, "schema": facts}
            for name, facts in schema["properties"].items()
        ]
    }


def _body_schema(model: type[BaseModel], kinds: Sequence[str], required: bool) -> dict[str, Any]:
    content = {"schema": model.model_json_schema()}
    return {"requestBody": {"content": dict.fromkeys(kinds, content), "required": required}}
