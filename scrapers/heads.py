"""Answers whose headers have no end: the one limit that neither Scrapy nor Twisted knows.

Twisted bounds a header line, not how many there are, and keeps them all until the last.
"""

from scrapy.core.downloader.handlers.http11 import (
    HTTP11DownloadHandler,
    _LenientHTTP11ClientFactory,
    _LenientHTTP11ClientProtocol,
)
from twisted.internet.interfaces import IAddress
from twisted.python.failure import Failure
from twisted.web._newclient import HEADER, STATUS

_LARGEST_BYTES = 64 * 2**10


class HeadTooLarge(Exception):
    """The status line and the headers of an answer are more than 64 KB."""


class _BoundedProtocol(_LenientHTTP11ClientProtocol):
    """Gives a connection up while too large a head arrives."""

    _seen = 0

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 -- Twisted's name
        """Take what has arrived; Twisted calls it."""
        super().dataReceived(data)  # type: ignore[no-untyped-call]
        if getattr(self._parser, "state", None) not in (STATUS, HEADER):
            self._seen = 0
            return
        self._seen += len(data)
        if self._seen > _LARGEST_BYTES:
            self._giveUp(Failure(HeadTooLarge(f"headers of more than {_LARGEST_BYTES} bytes")))  # type: ignore[no-untyped-call]


class _BoundedFactory(_LenientHTTP11ClientFactory):
    def buildProtocol(self, addr: IAddress | None) -> _BoundedProtocol:  # noqa: ARG002, N802 -- Twisted's
        return _BoundedProtocol(self._quiescentCallback)  # type: ignore[no-untyped-call]


def bound_heads(handler: HTTP11DownloadHandler) -> None:
    """Let the connections of `handler` refuse heads that are too large."""
    handler._pool._factory = _BoundedFactory  # noqa: SLF001 -- as Scrapy itself does


def is_too_large(error: BaseException | None) -> bool:
    """Whether a head that was too large is at the bottom of `error`."""
    while error is not None:
        reasons = getattr(error, "reasons", None) or ()
        if any(isinstance(getattr(reason, "value", reason), HeadTooLarge) for reason in reasons):
            return True
        error = error.__cause__ or error.__context__
    return False
