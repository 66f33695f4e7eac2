"""`/v1/catalog/memes`: the memes of the catalog."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from memeloom.catalog.records import Meme
from memeloom.serve.http.problems import problem_responses
from memeloom.serve.http.resources import Shared
from memeloom.serve.http.templates import find_template
from memeloom.serve.http.v1.catalog_search import Search, search
from memeloom.serve.http.v1.cursors import decode_cursor, encode_cursor

router = APIRouter(prefix="/v1/catalog", tags=["catalog"], responses=problem_responses(422, 503))


class CatalogTemplate(BaseModel):
    """The template of a meme."""

    id: str
    slug: str
    name: str


class CatalogMeme(BaseModel):
    """A meme of the catalog."""

    id: str = Field(examples=["imgflip:3vmgm2"])
    source: str = Field(examples=["imgflip"])
    template: CatalogTemplate | None = Field(description="Null if it is unknown.")
    caption: list[str] = Field(description="One text a box, as its page states or OCR read them.")
    title: str | None
    page_url: str | None = Field(description="Its page.")
    image_url: str | None = Field(description="Its picture on its site.")
    score: int | None = Field(description="Votes.")
    views: int | None
    posted_at: datetime | None
    over_18: bool | None = Field(description="Whether its site marks it as not safe for work.")


class CatalogPage(BaseModel):
    """A page of memes."""

    memes: list[CatalogMeme]
    next: str | None = Field(
        None,
        description="Cursor of the next page; null on the last one. With `text`, a page may be short, or empty, "
        "although more follow.",
    )


@router.get("/memes", responses=problem_responses(404), summary="Memes, page by page")
async def list_memes(
    shared: Shared,
    template: Annotated[
        str | None, Query(max_length=200, description="Id, slug or name of a template.", examples=["drake"])
    ] = None,
    source: Annotated[
        str | None, Query(max_length=100, pattern=r"^[a-z0-9_]+$", description="A source.", examples=["imgflip"])
    ] = None,
    text: Annotated[str, Query(max_length=200, description="Part of a caption or title.", examples=["monday"])] = "",
    limit: Annotated[int, Query(ge=1, le=200, description="Most memes of a page.")] = 50,
    cursor: Annotated[str | None, Query(max_length=1000, description="`next` of the page before.")] = None,
) -> CatalogPage:
    """List memes in order of id. A page never takes long: `text` looks at 5,000 memes a page."""
    wanted = Search(
        template=find_template(await shared.templates(), template).id if template is not None else None,
        source=source,
        text=text,
    )
    place = decode_cursor(cursor, 1)
    found = await shared.search(search, shared.documents, wanted, place[0] if place else "", limit)
    return CatalogPage(
        memes=[_shown(meme) for meme in found.memes], next=encode_cursor(found.after) if found.after else None
    )


def _shown(meme: Meme) -> CatalogMeme:
    named = meme.template
    return CatalogMeme(
        id=meme.id,
        source=meme.source,
        template=CatalogTemplate(id=named.id, slug=named.slug, name=named.name) if named else None,
        caption=list(meme.caption),
        title=meme.title,
        page_url=meme.page_url,
        image_url=meme.image_url,
        score=meme.score,
        views=meme.views,
        posted_at=meme.posted_at,
        over_18=meme.over_18,
    )
