"""Cursors: opaque texts that say where the next page of a list begins."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import orjson

from memeloom.serve.http.problems import Problem

_LONGEST = 1000


def encode_cursor(*places: str) -> str:
    """Return a cursor for these places."""
    return base64.urlsafe_b64encode(orjson.dumps(places)).decode().rstrip("=")


def decode_cursor(cursor: str | None, count: int) -> Sequence[str] | None:
    """Return the places of a cursor; None for None.

    Raises:
        Problem: 422, it is no cursor of a list with `count` places.
    """
    if cursor is None:
        return None
    places: Any = None
    try:
        if len(cursor) <= _LONGEST:
            places = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError):
        pass
    if not (isinstance(places, list) and len(places) == count and all(isinstance(each, str) for each in places)):
        raise Problem(422, None, "cursor: it is not the `next` of a page of this list", "cursor")
    return places
