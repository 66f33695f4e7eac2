"""The errors that a user sees: one line that says what happened, where, and what to do."""


class MemeloomError(Exception):
    """An error that the user can act on, in one line of text.

    The command line prints ``str(error)`` and exits with ``exit_code``; ``--debug`` shows the traceback.

    Attributes:
        summary: the stage's `configs.runs.Summary` so far, if any, for `run.json`.
    """

    exit_code = 1
    summary: object | None = None


class ConfigError(MemeloomError):
    """A setting, a URL or a command-line value that cannot be used."""

    exit_code = 2
