"""uvicorn's HTTP protocol with bounds for slow clients, who otherwise keep a connection as long as they like."""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from memeloom.serve.http.middleware.admission import ADMISSION, BUSY, Admission

# Number of pieces of a body that may be of any size, and mean bytes of the pieces beyond them. Each piece costs the
# event loop as much as kilobytes of a whole body, and chunks of one byte held up all other requests.
_FREE_PIECES: Final = 1000
_LEAST_PIECE: Final = 64
_IDLE: Final = {h11.CLIENT: h11.IDLE, h11.SERVER: h11.IDLE}
_LENGTH: Final = b"\ncontent-length:"
# Requests with one of these take the long way: their answers have further headers, or it is not sure where they end.
_SPECIAL: Final = (b"\norigin:", b"\ntransfer-encoding:", b"\nconnection:", b"\nexpect:", b"\nupgrade:")


class BoundedProtocol(H11Protocol):
    """Closes slow and surplus connections, and refuses whole requests when the server is full.

    Such a request gets a constant answer, at a tenth of what parsing it and running the application costs.

    A connection is closed

    - that does not send the head of a request within `seconds`, from its first byte or from connecting,
    - that stops sending a body, or goes on after it was answered, for `seconds`,
    - that does not read its answer for `seconds`,
    - that sends a body in tiny pieces, or
    - that has waited longest for a request, or for the rest of one, when there are more than `most`.

    waiting: connections whose request has not arrived, longest first; the same object for all connections of a server.
    """

    def __init__(
        self, *arguments: Any, seconds: float, most: int, waiting: "dict[BoundedProtocol, None]", **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._seconds, self._most, self._waiting = seconds, most, waiting
        self._pieces = self._bytes = 0
        self._next_event = self.conn.next_event
        self.conn.next_event = self._bounded_event  # type: ignore[method-assign]
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._waiting[self] = None
        if len(self.connections) > self._most:
            longest = next(iter(self._waiting))
            del self._waiting[longest]
            longest.transport.abort()
            if longest is self:
                return
        self._reading = self._abort_later()

    def data_received(self, data: bytes) -> None:
        """Read on; only the body of a request that is being answered gives the client more time."""
        admission: Admission | None = self.app_state.get(ADMISSION)
        if admission is not None and admission.is_full and self._is_refused(data, admission):
            admission.refused()
            self.transport.write(BUSY)
            self.on_response_complete()
            return
        super().data_received(data)
        their_state = self.conn.their_state
        if their_state is h11.SEND_BODY and not self.cycle.response_complete:
            self._stop_reading()
            self._reading = self._abort_later()
        elif their_state in (h11.IDLE, h11.SEND_BODY):
            self._reading = self._reading or self._abort_later()
        else:
            self._stop_reading()
            self._waiting.pop(self, None)

    def on_response_complete(self) -> None:
        """Wait for the next request; what is left of this one's body has a last deadline."""
        self._waiting.pop(self, None)
        self._waiting[self] = None
        super().on_response_complete()
        self._stop_reading()
        if self.conn.their_state is h11.SEND_BODY:
            self._reading = self._abort_later()

    def pause_writing(self) -> None:
        """Wait for a client that reads too slowly."""
        super().pause_writing()
        self._writing = self._writing or self._abort_later()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        self._stop_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if the client has not read the whole answer."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_reading()
        self._stop_writing()
        self._waiting.pop(self, None)
        super().connection_lost(exc)

    def _bounded_event(self) -> Any:
        """Return the next part of a request; close the connection when a body comes in too many pieces."""
        event = self._next_event()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._pieces += 1
            self._bytes += len(event.data)
            if self._pieces > _FREE_PIECES + self._bytes // _LEAST_PIECE:
                self.transport.abort()
                return h11.NEED_DATA
        return event

    def _is_refused(self, data: bytes, admission: Admission) -> bool:
        """Return True if `data` is one whole request, with nothing before or behind it, that is refused."""
        if self.conn.states != _IDLE or self.conn.trailing_data[0] or self._writing or self.transport.is_closing():
            return False
        head, separator, body = data.partition(b"\r\n\r\n")
        line, _, fields = head.partition(b"\r\n")
        parts = line.split(b" ")
        if not separator or len(parts) != 3 or parts[2] != b"HTTP/1.1":
            return False
        method, target, _ = parts
        if method not in (b"GET", b"POST") or not target.startswith(b"/") or b"%" in target:
            return False
        fields = (b"\n" + fields.lower() + b"\r\n").replace(b"\nconnection: keep-alive\r\n", b"\n")
        lengths = fields.split(_LENGTH)[1:]
        if len(lengths) > 1 or any(name in fields for name in _SPECIAL):
            return False
        declared = lengths[0].partition(b"\r")[0].strip() if lengths else b"0"
        if not declared.isdigit() or int(declared[:18]) != len(body):
            return False
        return admission.refuses(target.partition(b"?")[0].decode("latin-1"))

    def _abort_later(self) -> asyncio.TimerHandle:
        return self.loop.call_later(self._seconds, self.transport.abort)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _stop_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
