"""Mastodon, and servers that speak its API: `docs.joinmastodon.org/methods`.

A server answers a repeated `Idempotency-Key` with the first post for an hour. Later, a post is recognised among those
of the account by the description of its picture.
"""

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

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

_PAGE: Final = 40  # the most that a server lists at a time
_POLL_SECONDS: Final = 0.5


class _Limits(NamedTuple):
    characters: int
    description: int
    bytes: int
    pixels: int


class Mastodon:
    """See `Network`."""

    def __init__(self, server: str, user: str, token: str, seconds: float) -> None:
        self._api = Api(server, token, seconds)
        self._api.token = token
        self._user = user.lstrip("@")

    @understood
    def post(self, draft: Draft) -> Posted:
        """See `Network`."""
        self._account  # noqa: B018 -- checks the token
        limits = self._limits
        if len(draft.text) > limits.characters:
            raise AccountRefused(f"{self._api.host}: the text has more than {limits.characters} characters")
        picture = draft.picture(limits.bytes, limits.pixels)
        uploaded = self._api(
            "POST", "/api/v2/media", files={"file": ("meme.jpg", picture.data, "image/jpeg")},
            data={"description": _description(draft, limits)},
        )  # fmt: skip
        media = str(uploaded.json["id"])
        self._await_media(uploaded, media)
        status = self._api(
            "POST", "/api/v1/statuses", headers={"Idempotency-Key": draft.key},
            data={"status": draft.text, "media_ids[]": [media]},
        )  # fmt: skip
        return _posted(status.json)

    @understood
    def find(self, draft: Draft, since: datetime) -> list[Posted]:
        """See `Network`."""
        wanted = _description(draft, self._limits)
        found = []
        path = f"/api/v1/accounts/{self._account}/statuses"
        for status in self._pages(path, {"exclude_replies": "true", "exclude_reblogs": "true"}):
            if datetime.fromisoformat(status["created_at"]) < since:
                break
            if any((each["description"] or "").strip() == wanted for each in status["media_attachments"]):
                found.append(_posted(status))
        return found

    @understood
    def reactions(self, post: str) -> list[Reaction]:
        """See `Network`."""
        path = f"/api/v1/statuses/{post}"
        found = [
            *self._by_accounts(f"{path}/favourited_by", "like"),
            *self._by_accounts(f"{path}/reblogged_by", "repost"),
        ]
        for reply in self._api("GET", f"{path}/context").json["descendants"]:
            if str(reply["account"]["id"]) != self._account:
                at = datetime.fromisoformat(reply["created_at"])
                found.append(Reaction(self._name(reply["account"]), "reply", at))
        return found

    def withdraw(self, post: str) -> None:
        """See `Network`."""
        try:
            self._api("DELETE", f"/api/v1/statuses/{post}")
        except Rejected as error:
            if error.code != "404":
                raise

    def close(self) -> None:
        """See `Network`."""
        self._api.close()

    @cached_property
    def _account(self) -> str:
        """The account's id. Raises AccountRefused if the token is another account's."""
        found = self._api("GET", "/api/v1/accounts/verify_credentials").json
        if found["username"].casefold() != self._user.casefold():
            raise AccountRefused(f"{self._api.host}: the token belongs to {found['username']}, not to {self._user}")
        return str(found["id"])

    @cached_property
    def _limits(self) -> _Limits:
        found = self._api("GET", "/api/v2/instance").json["configuration"]
        media = found["media_attachments"]
        # Servers before 4.4 do not state the limit of descriptions.
        described = int(media.get("description_limit", 1500))
        return _Limits(
            int(found["statuses"]["max_characters"]), described, int(media["image_size_limit"]),
            int(media["image_matrix_limit"]),
        )  # fmt: skip

    def _await_media(self, answer: Answer, media: str) -> None:
        """Wait until an uploaded picture is processed (202, then 206), for the deadline of a request at most."""
        end = time.monotonic() + self._api.seconds
        while answer.status in (202, 206):
            if time.monotonic() > end:
                raise Unavailable(f"{self._api.host}: the picture is not processed within {self._api.seconds:g} s")
            time.sleep(_POLL_SECONDS)
            answer = self._api("GET", f"/api/v1/media/{media}")

    def _pages(self, path: str, params: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
        query = {"limit": str(_PAGE), **(params or {})}
        for _ in range(MOST_PAGES):
            page = self._api("GET", path, params=query)
            yield from page.json
            # A page without entries is the last one, whatever it says.
            if not page.next or not page.json:
                return
            query = {**query, **page.next}

    def _by_accounts(self, path: str, kind: Literal["like", "repost"]) -> list[Reaction]:
        return [
            Reaction(self._name(each), kind, None) for each in self._pages(path) if str(each["id"]) != self._account
        ]

    def _name(self, account: Mapping[str, Any]) -> str:
        name = text_of(account["acct"])
        return name if "@" in name else f"{name}@{self._api.host}"


def _description(draft: Draft, limits: _Limits) -> str:
    alt = draft.alt.strip()
    return alt if len(alt) <= limits.description else f"{alt[: limits.description - 1].rstrip()}…"


def _posted(status: Mapping[str, Any]) -> Posted:
    return Posted(str(status["id"]), str(status["url"] or status["uri"]))


def open_network(server: str, user: str, token: str, seconds: float) -> Network:
    """Open an account. token: of an application with the scopes ``read write``."""
    return Mastodon(server, user, token, seconds)
