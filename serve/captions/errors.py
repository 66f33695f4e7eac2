"""Why a request got no captions."""

from memeloom.configs.errors import MemeloomError


class CaptionsRefused(MemeloomError):
    """A request that cannot be written. field: the part of the request at fault."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


class UnknownTemplate(CaptionsRefused):
    """The model has not learned the template."""


class UnknownModel(CaptionsRefused):
    """The request names another model than the one that is served."""


class NoCaption(MemeloomError):
    """Every caption came out empty or was refused."""


class CaptionsUnavailable(MemeloomError):
    """No captions now, but later. retry_after: seconds until it is worth another try."""

    def __init__(self, reason: str, retry_after: int = 1) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class NoModel(CaptionsUnavailable):
    """There is no model, or none that can be read."""


class QueueFull(CaptionsUnavailable):
    """More captions wait for the model than `serve.caption_queue` allows."""


class DeadlineExceeded(CaptionsUnavailable):
    """The captions were not written in time."""
