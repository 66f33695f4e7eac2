"""Answers of Imgflip's API: ``{"success": true, "data": …}``, and its errors, whose status is 200 all the same."""

from typing import Generic, TypeVar

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from memeloom.serve.http.problems import Problem, ProblemRoute

D = TypeVar("D")


class ImgflipMeme(BaseModel):
    """A template, as Imgflip describes one."""

    id: str
    name: str
    url: str = Field(description="Its picture.")
    width: int
    height: int
    box_count: int = Field(description="Texts that it takes.")
    captions: int = Field(description="Memes on it in the catalog.")


class ImgflipMemes(BaseModel):
    """Templates."""

    memes: list[ImgflipMeme]


class ImgflipOne(BaseModel):
    """One template."""

    meme: ImgflipMeme


class ImgflipPicture(BaseModel):
    """A drawn meme."""

    url: str = Field(description="The picture; it may be cached for ever.")
    page_url: str = Field(description="The same: there are no pages.")


class ChosenPicture(ImgflipPicture):
    """A drawn meme, its template and its texts."""

    template_id: str
    texts: list[str]


class Success(BaseModel, Generic[D]):
    """An answer."""

    success: bool = True
    data: D


class Failure(BaseModel):
    """Why there is no answer; the status is 200 all the same."""

    success: bool = False
    error_message: str


class ImgflipRoute(ProblemRoute):
    """Answers errors of the request like Imgflip; those of the server, and limits, stay problem details."""

    async def answer(self, request: Request, problem: Problem) -> Response | None:  # noqa: ARG002
        """Return Imgflip's answer to an error."""
        if problem.status == 429 or problem.status >= 500:
            return None
        return JSONResponse(Failure(error_message=problem.detail).model_dump())
