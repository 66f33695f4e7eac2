"""Bluesky (AT Protocol): `docs.bsky.app/docs/api`.

The record key of a post follows from its draft, and the server is asked to create that record only if there is none
(`swapRecord` null), so that a draft is never posted twice, however late a request is repeated.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from memeloom.serve.publishing.api import MOST_PAGES, Answer, Api, text_of, understood
from memeloom.serve.publishing.contract import (
    AccountRefused,
    Draft,
    Network,
    Posted,
    Reaction,
    Rejected,
    Unavailable,
)

_COLLECTION: Final = "app.bsky.feed.post"
_MOST_CHARACTERS: Final = 300  # graphemes, which are never more than characters
_MOST_ALT: Final = 2000
# 2,000,000 since 2025; servers that are older take less.
_MOST_BYTES: Final = 1_000_000
_MOST_PIXELS: Final = 4_000_000
_PAGE: Final = "100"
_DEEPEST: Final = "6"  # levels of replies
_TAG: Final = re.compile(r"#\w*[^\W\d]\w*")
# Keys of posts must look like times: microseconds since 1970 in 53 bits, then 10 bits. Ours lie in the year 2024,
# so that no server takes them for posts of the future. Clients sort by `createdAt`.
_DIGITS: Final = "234567abcdefghijklmnopqrstuvwxyz"
_FIRST_KEY, _KEY_SPAN = 1_704_067_200_000_000, 31_536_000_000_000
_EXPIRED: Final = ("ExpiredToken", "InvalidToken")


class Bluesky:
    """See `Network`."""

    def __init__(self, server: str, user: str, token: str, seconds: float) -> None:
        self._api = Api(server, token, seconds)
        self._user, self._password = user.lstrip("@"), token
        self._did = self._refresh_token = ""

    @understood
    def post(self, draft: Draft) -> Posted:
        """See `Network`."""
        if len(draft.text) > _MOST_CHARACTERS:
            raise AccountRefused(f"{self._api.host}: the text has more than {_MOST_CHARACTERS} characters")
        picture = draft.picture(_MOST_BYTES, _MOST_PIXELS)
        blob = self._call(
            "POST", "com.atproto.repo.uploadBlob", content=picture.data, headers={"Content-Type": "image/jpeg"}
        ).json["blob"]
        image = {
            "image": blob, "alt": draft.alt[:_MOST_ALT],
            "aspectRatio": {"width": picture.width, "height": picture.height},
        }  # fmt: skip
        record = {
            "$type": _COLLECTION, "text": draft.text, "facets": _tags(draft.text),
            "createdAt": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "embed": {"$type": "app.bsky.embed.images", "images": [image]},
        }  # fmt: skip
        body = {**self._place(record_key(draft.key)), "record": record, "swapRecord": None}
        try:
            return self._posted(self._call("POST", "com.atproto.repo.putRecord", json=body))
        except Rejected as error:
            if error.code != "InvalidSwap":
                raise
            return self._posted(self._call("GET", "com.atproto.repo.getRecord", params=self._place_of(draft)))

    @understood
    def find(self, draft: Draft, since: datetime) -> list[Posted]:  # noqa: ARG002 -- the key tells
        """See `Network`."""
        try:
            return [self._posted(self._call("GET", "com.atproto.repo.getRecord", params=self._place_of(draft)))]
        except Rejected as error:
            if error.code != "RecordNotFound":
                raise
            return []

    @understood
    def reactions(self, post: str) -> list[Reaction]:
        """See `Network`."""
        likes = [
            Reaction(text_of(like["actor"]["did"]), "like", _time(like["createdAt"]))
            for like in self._pages("app.bsky.feed.getLikes", post, "likes")
        ]
        reposts = [
            Reaction(text_of(actor["did"]), "repost", None)
            for actor in self._pages("app.bsky.feed.getRepostedBy", post, "repostedBy")
        ]
        thread = self._call("GET", "app.bsky.feed.getPostThread", params={"uri": post, "depth": _DEEPEST}).json
        found = [*likes, *reposts, *_replies(thread["thread"])]
        return [each for each in found if each.person != self._did]

    def withdraw(self, post: str) -> None:
        """See `Network`."""
        self._sign_in_once()
        self._call("POST", "com.atproto.repo.deleteRecord", json=self._place(post.rpartition("/")[2]))

    def close(self) -> None:
        """See `Network`."""
        self._api.close()

    def _call(self, method: str, name: str, **body: Any) -> Answer:
        """Call a method as the account; an expired token is renewed once."""
        self._sign_in_once()
        for renew in (self._renew, None):
            try:
                return self._api(method, f"/xrpc/{name}", **body)
            except (Rejected, AccountRefused) as error:
                if error.code not in _EXPIRED:
                    raise
            if renew is not None:
                renew()
        raise Unavailable(f"{self._api.host}: a new token has expired already")

    def _sign_in_once(self) -> None:
        if not self._did:
            self._sign_in()

    def _sign_in(self) -> None:
        body = {"identifier": self._user, "password": self._password}
        self._keep(self._api("POST", "/xrpc/com.atproto.server.createSession", token="", json=body))

    def _renew(self) -> None:
        try:
            self._keep(self._api("POST", "/xrpc/com.atproto.server.refreshSession", token=self._refresh_token))
        except (Rejected, AccountRefused):
            self._sign_in()

    @understood
    def _keep(self, session: Answer) -> None:
        named = [text_of(session.json[name]) for name in ("accessJwt", "refreshJwt", "did")]
        self._api.token, self._refresh_token, self._did = named

    def _place(self, key: str) -> dict[str, str]:
        self._sign_in_once()
        return {"repo": self._did, "collection": _COLLECTION, "rkey": key}

    def _place_of(self, draft: Draft) -> dict[str, str]:
        return self._place(record_key(draft.key))

    def _posted(self, answer: Answer) -> Posted:
        uri = text_of(answer.json["uri"])
        return Posted(uri, f"https://bsky.app/profile/{self._did}/post/{uri.rpartition('/')[2]}")

    def _pages(self, name: str, post: str, listing: str) -> Iterator[Mapping[str, Any]]:
        query = {"uri": post, "limit": _PAGE}
        for _ in range(MOST_PAGES):
            page = self._call("GET", name, params=query).json
            yield from page[listing]
            if not page.get("cursor") or not page[listing]:
                return
            query = {**query, "cursor": page["cursor"]}


def record_key(key: str) -> str:
    """Return the record key of a draft: a valid TID that is the same for every attempt."""
    drawn = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "big")
    number = (_FIRST_KEY + drawn // 1024 % _KEY_SPAN) * 1024 + drawn % 1024
    return "".join(_DIGITS[number >> shift & 31] for shift in range(60, -1, -5))


def _tags(text: str) -> list[dict[str, Any]]:
    """Return what makes the hashtags of a text clickable; places are in bytes of UTF-8."""
    return [
        {
            "index": {"byteStart": len(text[: tag.start()].encode()), "byteEnd": len(text[: tag.end()].encode())},
            "features": [{"$type": "app.bsky.richtext.facet#tag", "tag": tag[0][1:]}],
        }
        for tag in _TAG.finditer(text)
    ]


def _replies(thread: Mapping[str, Any]) -> Iterator[Reaction]:
    for reply in thread.get("replies") or ():
        if "post" in reply:  # not one that was deleted or blocked
            post = reply["post"]
            yield Reaction(text_of(post["author"]["did"]), "reply", _time(post["indexedAt"]))
            yield from _replies(reply)


def _time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def open_network(server: str, user: str, token: str, seconds: float) -> Network:
    """Open an account. user: its handle. token: an app password."""
    return Bluesky(server, user, token, seconds)
