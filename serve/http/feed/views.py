"""Memes of the feed as pages and JSON show them, and their pictures."""

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import BaseModel, Field

from memeloom.catalog.feed import FeedMeme
from memeloom.catalog.records import Template
from memeloom.serve.bounded_cache import BoundedCache
from memeloom.serve.drawing.encode import alt_text
from memeloom.serve.feed.feed import Feed, Shown
from memeloom.serve.http.payloads import validated
from memeloom.serve.http.pictures.options import ImageOptions
from memeloom.serve.http.pictures.plan import RenderPlan
from memeloom.serve.http.pictures.planning import plan_image
from memeloom.serve.http.problems import Problem
from memeloom.serve.http.resources import Resources

# The widest picture, in pixels: twice that of a card on a phone.
_WIDEST: Final = 720
_KEPT_BYTES: Final = 32 * 2**20


class FeedView(BaseModel):
    """A meme with the sums of its reactions, and the visitor's own one."""

    id: str = Field(examples=["0f1e2d3c4b5a69788796"])
    template: str = Field(description="Name of its template in addresses.", examples=["doge"])
    name: str = Field(description="Name of its template.", examples=["Doge"])
    alt: str = Field(description="Alternative text of the picture.", examples=["Doge: such api / very caption"])
    page: str = Field(description="Path of its page.", examples=["/m/0f1e2d3c4b5a69788796"])
    picture: str = Field(description="Path of its picture.", examples=["/m/0f1e2d3c4b5a69788796.jpg"])
    width: int = Field(description="Of the picture, in pixels.", examples=[600])
    height: int = Field(examples=[450])
    likes: int
    dislikes: int
    mine: Literal[-1, 0, 1] = Field(description="The visitor's reaction: 1 likes it, -1 does not, 0 is none.")


class Pictures:
    """Draws memes of the feed, and keeps the drawn files. Use it on the event loop."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._kept = BoundedCache[str, bytes](_KEPT_BYTES, len)

    async def plan(self, template: str, boxes: Sequence[str], version: str | None = None) -> RenderPlan:
        """Plan a picture. version: that its address names.

        Raises:
            Problem: 404 the template is gone, 422 it takes fewer texts by now.
        """
        found = await self.template(template)
        assert found.picture is not None
        width = _WIDEST if found.picture.width > _WIDEST else 0
        options = validated(ImageOptions, {"width": width, "v": version})
        return await plan_image(self._resources, found.id, boxes, "jpg", options)

    async def template(self, template: str) -> Template:
        """Return a template, which has a picture. Raises Problem (404)."""
        found = (await self._resources.templates()).find(template)
        if found is None:
            raise Problem(404, None, "the template of this meme is gone")
        return found

    async def draw(self, plan: RenderPlan) -> bytes:
        """Return the file of a picture. Raises Problem."""
        kept = self._kept.get(plan.etag)
        if kept is None:
            kept = (await self._resources.run(self._resources.renderer.render, plan)).data
            self._kept.put(plan.etag, kept)
        return kept

    async def views(self, memes: Sequence[Shown]) -> list[FeedView]:
        """Return memes as they are shown, without those whose template is gone or takes fewer texts by now."""
        views = []
        for shown in memes:
            try:
                views.append(await self._view(shown))
            except Problem:
                continue
        return views

    async def _view(self, shown: Shown) -> FeedView:
        meme, template = shown.meme, await self.template(shown.meme.template)
        plan = await self.plan(meme.template, meme.boxes)
        width, height = drawn_size(template)
        return FeedView(
            id=meme.id,
            template=(await self._resources.templates()).name_of(template),
            name=template.name,
            alt=alt_text(template.name, meme.boxes),
            page=f"/m/{meme.id}",
            picture=f"/m/{meme.id}.jpg?v={plan.version}",
            width=width,
            height=height,
            likes=shown.sums.likes,
            dislikes=shown.sums.dislikes,
            mine=shown.mine,
        )


def drawn_size(template: Template) -> tuple[int, int]:
    """Return width and height, in pixels, of the pictures on a template."""
    assert template.picture is not None
    ratio = min(1.0, _WIDEST / template.picture.width)
    return round(template.picture.width * ratio), round(template.picture.height * ratio)


async def find_meme(feed: Feed, meme: str, person: str | None = None) -> Shown:
    """Return a meme that may be shown. Raises Problem: 404 unknown or not reviewed yet, 410 removed."""
    found = await feed.memes([meme], person)
    if not found or found[0].meme.state == "review":
        raise Problem(404, None, "there is no such meme")
    check_not_removed(found[0].meme)
    return found[0]


def check_not_removed(meme: FeedMeme) -> None:
    """Raise Problem (410) for a removed meme."""
    if meme.state == "removed":
        raise Problem(410, None, "this meme was removed")
