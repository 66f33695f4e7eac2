"""The values of a dump's record as fields of a meme; a value that fits none is None."""

import re
from datetime import UTC, date, datetime

from pydantic import ValidationError

# Without a scheme, as in ImgFlip575K, it needs a dot and a slash.
_URL = re.compile(r"(?:(https?:)?//)?([^\s/]+\.[^\s/]+/\S*)")
_INT64 = 2**63


class Misfit(Exception):
    """A record that violates its layout; the message says how."""


def slug_of(name: str) -> str:
    """Return a template's name as in Imgflip's URLs: ``Y'all Got Any`` becomes ``Yall-Got-Any``."""
    return "-".join(re.sub(r"[^\w\s-]", "", name).split())


def first_problem(error: ValidationError) -> str:
    """Return the first problem that pydantic found, without the value."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def are_texts(value: object) -> bool:
    """Return whether `value` is a list of strings."""
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def url_of(value: object) -> str | None:
    """Return a web address with its scheme; None if it is not one."""
    found = _URL.fullmatch(value) if isinstance(value, str) else None
    return f"{found[1] or 'https:'}//{found[2]}" if found else None


def number_of(value: object) -> int | None:
    """Parse a count such as ``1,992``; None if it is not one, or too large for a store."""
    if isinstance(value, str) and len(value) <= 26:
        digits = value.strip().replace(",", "")
        value = int(digits) if digits.removeprefix("-").isdecimal() else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64:
        return value
    return None


def time_of(value: object) -> datetime | None:
    """Return a point in time: seconds since 1970, ISO 8601, or a date; without a zone it is UTC."""
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = float(value) if value.replace(".", "", 1).isdecimal() else datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)  # noqa: DTZ001
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**33:
        return datetime.fromtimestamp(value, UTC)
    return None


def flag_of(value: object) -> bool | None:
    """Return a yes or no: a bool, 0 or 1, or one of these words."""
    word = str(value).strip().lower()
    return True if word in ("true", "1", "yes") else False if word in ("false", "0", "no") else None
