"""What the middleware does, in the OpenAPI document: API keys, budgets and a full server."""

from typing import Any, Final

from fastapi import FastAPI

from memeloom.serve.http.middleware.answers import PROBES
from memeloom.serve.http.problems import MEDIA_TYPE

_SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer ml_…`."},
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "The same key in its own header.",
    },
}
_RETRY: Final = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
_ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "401": {
        "description": "No API key, or an unknown one; only if the server has keys.",
        "headers": {"WWW-Authenticate": {"schema": {"type": "string"}}},
    },
    "413": {"description": "The body is too large."},
    "429": {"description": "The budget of the key or address is used up.", "headers": _RETRY},
    "503": {"description": "The server is busy, or did not answer in time.", "headers": _RETRY},
}


def describe_middleware(app: FastAPI, *, has_keys: bool) -> None:
    """Add the answers of the middleware to the OpenAPI document of `app`. has_keys: requests need an API key."""
    describe = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        made = describe()
        made["components"]["securitySchemes"] = _SCHEMES
        for path, operations in made["paths"].items():
            if path not in PROBES:
                for operation in operations.values():
                    _describe(operation, has_keys=has_keys)
        return made

    app.openapi = document  # type: ignore[method-assign]


def _describe(operation: dict[str, Any], *, has_keys: bool) -> None:
    if has_keys:
        operation["security"] = [{name: []} for name in _SCHEMES]
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    for status, answer in _ANSWERS.items():
        described = operation["responses"].setdefault(status, {"description": answer["description"], "content": {}})
        described.setdefault("content", {}).update(content)
        if "headers" in answer:
            described.setdefault("headers", {}).update(answer["headers"])
