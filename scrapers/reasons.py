"""Why requests, pages, pictures and memes failed or were left out: a small fixed set of typed, counted reasons."""

from dataclasses import dataclass, replace
from enum import StrEnum

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)

from memeloom.configs.errors import MemeloomError
from memeloom.scrapers.guard import AddressRefused
from memeloom.scrapers.robots import RobotsForbidden, RobotsUnavailable
from memeloom.scrapers.tags import RefusedByTag
from memeloom.scrapers.tls import CertificateRefused

TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 522, 524})
TRANSIENT_FAILURES = (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)


class About(StrEnum):
    """What a reason is about."""

    PAGE = "page"
    WITHIN_PAGE = "within a page"
    IMAGE = "image"
    TEMPLATE_IMAGE = "template image"
    SKIPPED = "skipped"
    DROPPED = "dropped"


class Kind(StrEnum):
    """The kinds of reasons; the value is the text that users see."""

    HTTP = "HTTP"
    ADDRESS_REFUSED = "address refused"
    CERTIFICATE_REFUSED = "certificate refused"
    HOST_GIVEN_UP = "host given up"
    ROBOTS = "forbidden by robots.txt"
    ROBOTS_UNAVAILABLE = "robots.txt:"
    TAGGED = "tagged"
    TIMED_OUT = "timed out"
    UNKNOWN_HOST = "unknown host"
    NO_CONNECTION = "no connection"
    CUT_OFF = "cut off"
    TOO_MANY_BYTES = "too many bytes"
    NO_ADDRESS = "not an address on the web"
    REDIRECT_REFUSED = "redirected to another host"
    REMOVED = "removed by its host"
    NO_REDIRECT = "redirected to no address on the web"
    TOO_MANY_REDIRECTS = "too many redirects"
    IGNORED = "ignored"
    NOT_TEXT = "not a page"
    NOT_A_PICTURE = "a page instead of a picture"
    UNREADABLE = "cannot be parsed:"
    UNEXPECTED = "unexpected error:"
    MALFORMED = "malformed request:"
    LONG_WAIT = "site asks for a wait of more than ten minutes"
    SEEN = "seen before in this crawl"
    NO_MEME = "page without a meme"
    PURGED = "removed by a purge"
    # The words of a parser or of the picture decoder, or the message of one of our errors.
    STATED = ""


_TRANSIENT = frozenset(
    {Kind.HOST_GIVEN_UP, Kind.ROBOTS_UNAVAILABLE, Kind.TIMED_OUT, Kind.UNKNOWN_HOST, Kind.NO_CONNECTION, Kind.CUT_OFF,
     Kind.NOT_TEXT, Kind.UNEXPECTED}
)  # fmt: skip
# The kinds of all failures on a machine without a network.
_UNREACHABLE = frozenset({Kind.UNKNOWN_HOST, Kind.NO_CONNECTION, Kind.TIMED_OUT, Kind.HOST_GIVEN_UP})


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason; its string is what users see.

    Attributes:
        detail: an HTTP status, a tag, the type of an exception or, for `Kind.STATED`, the whole text.
    """

    kind: Kind
    detail: str = ""
    about: About | None = None

    def __str__(self) -> str:
        text = f"{self.kind} {self.detail}".strip()
        return f"{self.about}: {text}" if self.about else text

    def of(self, about: About) -> "Reason":
        """Return this reason about something."""
        return replace(self, about=about)

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        if self.kind is Kind.HTTP:
            return int(self.detail) in TRANSIENT_STATUSES
        return self.kind in _TRANSIENT

    @property
    def is_unreachable(self) -> bool:
        """Whether the host, or its robots.txt, was not reached."""
        return self.kind in _UNREACHABLE or (self.kind is Kind.ROBOTS_UNAVAILABLE and self.detail in _UNREACHABLE)


class HostGivenUp(IgnoreRequest):
    """A host that failed repeatedly receives no more requests in this crawl."""


class RedirectRefused(IgnoreRequest):
    """A request that carries credentials is not redirected to another host."""


class TooManyRedirects(IgnoreRequest):
    """More redirects in a row than are followed."""


class RequestFailed(Exception):
    """A request failed for good."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


# The first matching row wins.
_KINDS: tuple[tuple[type[BaseException], Kind], ...] = (
    (AddressRefused, Kind.ADDRESS_REFUSED),
    (CertificateRefused, Kind.CERTIFICATE_REFUSED),
    (HostGivenUp, Kind.HOST_GIVEN_UP),
    (RedirectRefused, Kind.REDIRECT_REFUSED),
    (RobotsForbidden, Kind.ROBOTS),
    (TooManyRedirects, Kind.TOO_MANY_REDIRECTS),
    (DownloadTimeoutError, Kind.TIMED_OUT),
    (CannotResolveHostError, Kind.UNKNOWN_HOST),
    (DownloadConnectionRefusedError, Kind.NO_CONNECTION),
    (ResponseDataLossError, Kind.CUT_OFF),
    (DownloadCancelledError, Kind.TOO_MANY_BYTES),
    (UnsupportedURLSchemeError, Kind.NO_ADDRESS),
    (DownloadFailedError, Kind.NO_CONNECTION),
)


def reason_of(error: BaseException) -> Reason:
    """Return the reason for an exception that a request, its response or its parser raised."""
    for exception, kind in _KINDS:
        if isinstance(error, exception):
            return Reason(kind)
    return _detailed(error) or Reason(Kind.UNEXPECTED, type(error).__name__)


def _detailed(error: BaseException) -> Reason | None:
    match error:
        case RequestFailed(reason=reason):
            return reason
        case RobotsUnavailable(cause=cause):
            return Reason(Kind.ROBOTS_UNAVAILABLE, f"HTTP {cause}" if isinstance(cause, int) else str(reason_of(cause)))
        case RefusedByTag(tag=tag):
            return Reason(Kind.TAGGED, tag)
        case MemeloomError():
            return Reason(Kind.STATED, str(error))
        case IgnoreRequest():
            return Reason(Kind.IGNORED)
    return None
