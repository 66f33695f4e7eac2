"""Errors as pictures: clients show what they get.

memegen answers errors as pictures with an error status. So do these routes, unless the client's ``Accept`` asks for
JSON: it gets problem details.
"""

from typing import Final

from fastapi import Request, Response
from PIL import Image

from memeloom.serve.drawing.draw import DrawOptions, draw
from memeloom.serve.drawing.encode import Format, encode
from memeloom.serve.drawing.pictures import Picture
from memeloom.serve.http.pictures.planning import FORMATS, MEDIA_TYPES
from memeloom.serve.http.problems import Problem, ProblemRoute
from memeloom.serve.http.resources import resources_of

_DEFAULT: Final[Format] = "png"
# Errors of the server, and of clients that ask too much, are not worth drawing.
_DRAWN: Final = (404, 414, 415, 422)
_SIZE: Final = (480, 270)
_COLOUR: Final = (70, 78, 92)


class PictureRoute(ProblemRoute):
    """Answers errors with a picture in the format of the path, or with problem details if the client wants JSON."""

    async def answer(self, request: Request, problem: Problem) -> Response | None:
        """Return the picture."""
        if problem.status not in _DRAWN or not _wants_picture(request):
            return None
        file_format = FORMATS.get(request.url.path.rpartition(".")[2].lower(), _DEFAULT)
        data = await (await resources_of(request)).run(_drawn, problem, file_format)
        headers = {**problem.headers, "Cache-Control": "no-store", "Vary": "Accept"}
        return Response(data, problem.status, headers, MEDIA_TYPES[file_format])


def _drawn(problem: Problem, file_format: Format) -> bytes:
    card = Picture.of(Image.new("RGB", _SIZE, _COLOUR))
    drawing = draw(card, (), (str(problem.status), problem.detail), DrawOptions(capitals=False))
    return encode(drawing, file_format, f"{problem.status}: {problem.detail}")


def _wants_picture(request: Request) -> bool:
    """Return False if the client accepts JSON and no pictures."""
    accepted = request.headers.get("accept", "*/*").lower()
    return "image/" in accepted or "json" not in accepted
