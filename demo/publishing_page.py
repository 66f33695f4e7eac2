"""What people see of the stand-in Mastodon server: the posts of the account, and buttons to like them."""

import itertools
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from memeloom.demo.publishing_mastodon import MastodonServer

PATH = "/@memes"
_PICTURES = "/system/media_attachments/files"
_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>@memes</title>
<style>body{font:16px sans-serif;max-width:36em;margin:1em auto;padding:0 1em}img{max-width:100%}
article{margin:2em 0}form{margin:.5em 0}</style></head><body>
<h1>@memes</h1>
"""


class AccountPage:
    """The page of a server's account."""

    def __init__(self, server: "MastodonServer", pictures: Mapping[str, bytes]) -> None:
        """pictures: JPEG files by id of the upload."""
        self._server = server
        self._pictures = pictures
        self._visitors = itertools.count(1)

    def routes(self) -> list[web.AbstractRouteDef]:
        """Return the routes of the page, its pictures and its buttons."""
        return [
            web.get(PATH, self._page),
            web.post(f"{PATH}/{{id}}/favourite", self._favourite),
            web.get(f"{_PICTURES}/{{id}}/original.jpg", self._picture),
        ]

    async def _page(self, _: web.Request) -> web.Response:
        posts = [self._post(status) for status in reversed(self._server.statuses.values())]
        return web.Response(text=_HEAD + ("".join(posts) or "<p>No posts yet.</p>"), content_type="text/html")

    async def _favourite(self, request: web.Request) -> web.Response:
        """Let a new visitor like a post."""
        if request.match_info["id"] not in self._server.statuses:
            raise web.HTTPNotFound
        self._server.react(request.match_info["id"], "favourited_by", f"visitor{next(self._visitors)}@example.social")
        raise web.HTTPSeeOther(PATH)

    async def _picture(self, request: web.Request) -> web.Response:
        picture = self._pictures.get(request.match_info["id"])
        if picture is None:
            raise web.HTTPNotFound
        return web.Response(body=picture, content_type="image/jpeg")

    def _post(self, status: Mapping[str, Any]) -> str:
        pictures = "".join(
            f'<img src="{_PICTURES}/{media["id"]}/original.jpg" alt="{escape(media["description"])}">'
            for media in status["media_attachments"]
        )
        likes = self._server.favourites(status["id"])
        return (
            f'<article>{status["content"]}{pictures}<form method="post" action="{PATH}/{status["id"]}/favourite">'
            f"<button>♥ {likes}</button> <small>{status['created_at']}</small></form></article>\n"
        )
