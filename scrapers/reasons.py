"""Map download errors to short fixed reasons that are counted."""

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
from scrapy.spidermiddlewares.httperror import HttpError

from memeloom.scrapers.guard import AddressRefused
from memeloom.scrapers.robots import RobotsForbidden, RobotsUnavailable
from memeloom.scrapers.tags import RefusedByTag
from memeloom.scrapers.tls import CertificateRefused


class HostGivenUp(IgnoreRequest):
    """A host that failed repeatedly receives no more requests in this crawl."""


class RedirectRefused(IgnoreRequest):
    """A request that carries credentials is not redirected to another host."""


_PHRASES: tuple[tuple[type[BaseException], str], ...] = (
    (AddressRefused, "address refused"),
    (CertificateRefused, "certificate refused"),
    (HostGivenUp, "host given up"),
    (RedirectRefused, "redirected to another host"),
    (RobotsForbidden, "forbidden by robots.txt"),
    (DownloadTimeoutError, "timed out"),
    (CannotResolveHostError, "unknown host"),
    (DownloadConnectionRefusedError, "no connection"),
    (ResponseDataLossError, "cut off"),
    (DownloadCancelledError, "too many bytes"),
    (UnsupportedURLSchemeError, "not an address on the web"),
    (DownloadFailedError, "no connection"),
)
# Raised for every request on a machine without a network.
UNREACHABLE = frozenset({"unknown host", "no connection", "timed out", "host given up"})

TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 522, 524})
TRANSIENT_FAILURES = (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)

_IGNORED = (
    ("max redirections", "too many redirects"),
    ("ecompress", "too many bytes"),
)


def reason_of(error: BaseException) -> str | None:
    """Return the reason for a download error; None for other errors."""
    if isinstance(error, HttpError):
        return f"HTTP {error.response.status}"
    if isinstance(error, RobotsUnavailable):
        cause = error.cause
        return f"robots.txt: {f'HTTP {cause}' if isinstance(cause, int) else reason_of(cause) or type(cause).__name__}"
    if isinstance(error, RefusedByTag):
        return f"tagged {error.tag}"
    for kind, phrase in _PHRASES:
        if isinstance(error, kind):
            return phrase
    if isinstance(error, IgnoreRequest):
        return next((phrase for part, phrase in _IGNORED if part in str(error)), "ignored")
    return None


def is_transient(error: BaseException | None) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, HttpError):
        return error.response.status in TRANSIENT_STATUSES
    if isinstance(error, DownloadCancelledError):
        return False
    return isinstance(error, (HostGivenUp, RobotsUnavailable, *TRANSIENT_FAILURES))
