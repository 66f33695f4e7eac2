"""Log lines on standard error, the same in all processes: as text, or as JSON lines with ``log.format: json``.

A JSON line has ``time`` (UTC), ``level``, ``stage`` and ``message``, then fields of its own. Secrets are masked.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from memeloom.configs.masks import Redactor
from memeloom.configs.schema import Config

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def json_line(
    stage: str, message: str, *, level: str = "info", redact: Callable[[str], str] = str, **fields: Any
) -> str:
    """Return one line of the log, all its texts changed by `redact`. It is ASCII: foreign text commands no terminal."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = {"time": now, "level": level, "stage": stage, "message": message, **fields}
    return json.dumps(_redacted(line, redact), default=str)


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    # Before it is JSON, in which a secret may be spelled differently.
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {name: _redacted(each, redact) for name, each in value.items()}
        case list() | tuple():
            return [_redacted(each, redact) for each in value]
    return value


class LogFormatter(logging.Formatter):
    """Formats a record as text; its secrets are masked."""

    def __init__(self, config: Config) -> None:
        super().__init__(_TEXT)
        self._redact = Redactor(config)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the lines of a traceback."""
        return self._redact(super().format(record))


class JsonFormatter(LogFormatter):
    """Formats a record as one JSON object; a traceback is its field ``exception``."""

    def __init__(self, config: Config, stage: str) -> None:
        super().__init__(config)
        self._stage = stage

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = {"logger": record.name}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        level = record.levelname.lower()
        return json_line(self._stage, record.getMessage(), level=level, redact=self._redact, **fields)


def formatter_of(config: Config, stage: str) -> LogFormatter:
    """Return what formats the records of `stage`, by ``log.format``."""
    return JsonFormatter(config, stage) if config.log.format == "json" else LogFormatter(config)


def log_to_stderr(formatter: LogFormatter) -> None:
    """Write the warnings and errors of this process to standard error, in place of an earlier formatter."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _StderrHandler):
            root.removeHandler(handler)
    added = _StderrHandler()
    added.setFormatter(formatter)
    added.setLevel(logging.WARNING)
    root.addHandler(added)
    logging.captureWarnings(capture=isinstance(formatter, JsonFormatter))


def stderr_formatter() -> LogFormatter | None:
    """Return what this process writes to standard error with, for processes that it starts; None if nothing was set."""
    ours = (handler.formatter for handler in logging.getLogger().handlers if isinstance(handler, _StderrHandler))
    return next((formatter for formatter in ours if isinstance(formatter, LogFormatter)), None)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at the time, as progress bars and TensorFlow redirect it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr
