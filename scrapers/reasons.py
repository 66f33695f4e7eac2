"""Why a download failed, as a short fixed phrase that is counted."""

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

from scrapers.guard import AddressRefused

_PHRASES: tuple[tuple[type[BaseException], str], ...] = (
    (AddressRefused, "address refused"),
    (DownloadTimeoutError, "timed out"),
    (CannotResolveHostError, "unknown host"),
    (DownloadConnectionRefusedError, "no connection"),
    (ResponseDataLossError, "cut off"),
    (DownloadCancelledError, "too many bytes"),
    (UnsupportedURLSchemeError, "not an address on the web"),
    (DownloadFailedError, "no connection"),
)

_IGNORED = (
    ("robots.txt", "forbidden by robots.txt"),
    ("max redirections", "too many redirects"),
    ("ecompress", "too many bytes"),
)


def why(error: BaseException) -> str | None:
    """The phrase for an error of a download; None if the error is none of a download's."""
    if isinstance(error, HttpError):
        return f"HTTP {error.response.status}"
    for kind, phrase in _PHRASES:
        if isinstance(error, kind):
            return phrase
    if isinstance(error, IgnoreRequest):
        return next((phrase for part, phrase in _IGNORED if part in str(error)), "ignored")
    return None
