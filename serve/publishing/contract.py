"""The contract of a network, and the errors of publishing.

::

    MemeloomError
      PublishError
        Unavailable      no answer, or an answer of a broken server: try again later; the request may have been done
        Limited          too many requests; `until` says when to go on
        Rejected         this request will never be accepted; nothing was done
        AccountRefused   the account cannot be used: a wrong token, a missing right, a text that is too long
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias

from memeloom.configs.errors import MemeloomError


class Jpeg(NamedTuple):
    """A picture to upload; width and height in pixels."""

    data: bytes
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Draft:
    """What to post.

    Attributes:
        key: the same for every attempt at this post, and for no other: 32 hex digits.
        text: the text beside the picture; may be empty.
        alt: description of the picture.
        picture: draws it, in at most this many bytes and pixels.
    """

    key: str
    text: str
    alt: str
    picture: Callable[[int, int], Jpeg]


class Posted(NamedTuple):
    """A post: its id there, and the address of its page."""

    post: str
    url: str


class Reaction(NamedTuple):
    """What a person thinks of a post.

    person: name of the account there. kind: what they did. at: when; None if the network does not say.
    """

    person: str
    kind: Literal["like", "repost", "reply"]
    at: datetime | None


class Network(Protocol):
    """One account of a network. All calls raise `PublishError`."""

    def post(self, draft: Draft) -> Posted:
        """Post. A repeated call with the same key must not post twice for an hour at least."""

    def find(self, draft: Draft, since: datetime) -> list[Posted]:
        """Return the posts that an earlier `post` of this draft may have made after `since`; usually none or one.

        They may include posts of other drafts that look the same; the caller knows those.
        """

    def reactions(self, post: str) -> list[Reaction]:
        """Return the reactions of other people to a post, by its id."""

    def withdraw(self, post: str) -> None:
        """Delete a post; one that is gone already is fine."""

    def close(self) -> None:
        """Close the connections."""


# What a network's module declares: opens the account `user` of `server` with its token, with a deadline of a request.
OpenNetwork: TypeAlias = Callable[[str, str, str, float], Network]


class PublishError(MemeloomError):
    """Publishing failed. code: what the network calls the error, or its HTTP status."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Unavailable(PublishError):
    """The network does not answer as it should, so the request may have been done or not."""


class Rejected(PublishError):
    """The network will never accept this request."""


class AccountRefused(PublishError):
    """The network does not let the account post."""


class Limited(PublishError):
    """The account has made too many requests."""

    def __init__(self, message: str, until: datetime) -> None:
        super().__init__(message)
        self.until = until
