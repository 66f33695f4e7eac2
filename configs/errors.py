"""The errors that a user sees: one line that says what, where and what to do."""


class MemeloomError(Exception):
    """Something went wrong that the user can act on; its text is the one line they read.

    The command line prints ``str(error)`` and exits with ``exit_code``; the traceback
    is shown only with ``--debug``.
    """

    exit_code = 1


class ConfigError(MemeloomError):
    """A setting, a URL or a command-line value that cannot be used."""

    exit_code = 2
