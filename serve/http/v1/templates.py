"""`/v1/templates`: the templates with their text boxes."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from memeloom.catalog.records import Template, TemplateBox
from memeloom.serve.http.pictures.addresses import image_url
from memeloom.serve.http.problems import problem_responses
from memeloom.serve.http.resources import Shared
from memeloom.serve.http.templates import TemplateLookup, capacity, find_template, is_animated
from memeloom.serve.http.v1.cursors import decode_cursor, encode_cursor

router = APIRouter(prefix="/v1/templates", tags=["templates"], responses=problem_responses(422, 503))

Limit = Annotated[int, Query(ge=1, le=200, description="Most templates of a page.")]
Cursor = Annotated[str | None, Query(max_length=1000, description="`next` of the page before.")]


class TemplateDetails(BaseModel):
    """A template."""

    id: str = Field(examples=["181913649"])
    slug: str = Field(description="Its name in URLs.", examples=["drake"])
    name: str = Field(examples=["Drake Hotline Bling"])
    other_names: list[str] = Field(examples=[["Drakeposting"]])
    source: str = Field(description="Where it comes from.", examples=["imgflip"])
    lines: int = Field(description="Texts that it takes.", examples=[2])
    boxes: list[TemplateBox] = Field(
        description="Text boxes in fractions of the picture; none: bands from top to bottom."
    )
    width: int = Field(description="Of its picture, in pixels.", examples=[1200])
    height: int = Field(examples=[1200])
    animated: bool
    memes: int = Field(description="Memes on it in the catalog.", examples=[1234])
    picture: str = Field(description="Its picture.", examples=["http://127.0.0.1:8000/images/drake.png"])


class TemplatePage(BaseModel):
    """A page of templates."""

    templates: list[TemplateDetails]
    next: str | None = Field(None, description="Cursor of the next page; null on the last one.")


@router.get("", summary="Templates, page by page")
async def list_templates(
    request: Request,
    shared: Shared,
    filter: Annotated[str, Query(max_length=100, description="Part of an id or name.")] = "",  # noqa: A002
    limit: Limit = 50,
    cursor: Cursor = None,
) -> TemplatePage:
    """List templates in order of id."""
    lookup, base = await shared.templates(), shared.base_url(request)
    place = decode_cursor(cursor, 1)
    after = place[0] if place else ""

    def page() -> TemplatePage:
        found = sorted((each for each in lookup.matching(filter) if each.id > after), key=lambda each: each.id)
        shown = [_details(each, lookup, base) for each in found[:limit]]
        return TemplatePage(templates=shown, next=encode_cursor(shown[-1].id) if len(found) > limit else None)

    return await shared.run(page)


@router.get("/{template}", responses=problem_responses(404), summary="One template")
async def get_template(
    request: Request, shared: Shared, template: Annotated[str, Path(max_length=200, examples=["drake"])]
) -> TemplateDetails:
    """Return one template, by id, slug or name."""
    lookup = await shared.templates()
    return _details(find_template(lookup, template), lookup, shared.base_url(request))


def _details(template: Template, lookup: TemplateLookup, base: str) -> TemplateDetails:
    picture = template.picture
    assert picture is not None, "the lookup has only templates with a picture"
    return TemplateDetails(
        id=template.id,
        slug=template.slug,
        name=template.name,
        other_names=list(template.alt_names),
        source=template.source,
        lines=capacity(template),
        boxes=list(template.boxes),
        width=picture.width,
        height=picture.height,
        animated=is_animated(template),
        memes=lookup.memes(template),
        picture=image_url(base, lookup.name_of(template), [], "png"),
    )
