"""The errors that a user sees: one line that says what, where and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memeloom.configs.runs import Summary


class MemeloomError(Exception):
    """Something went wrong that the user can act on; its text is the one line they read.

    The command line prints ``str(error)`` and exits with ``exit_code``; the traceback
    is shown only with ``--debug``.

    summary: what the stage had done until then, if it can tell; it goes into `run.json`.
    """

    exit_code = 1
    summary: Summary | None = None


class ConfigError(MemeloomError):
    """A setting, a URL or a command-line value that cannot be used."""

    exit_code = 2
