"""Keep secrets out of everything that is shown: settings, logs, messages and tracebacks.

An address shows its scheme, its hosts with their ports, and a path that names a file, a bucket or a database; the rest
is masked. An address outside this grammar shows its scheme only, because any part of it may belong to a password.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote, unquote_plus

from pydantic import BaseModel, SecretStr

MASK = "********"

# Only a percent-encoded slash, of a MongoDB socket: a host with other escapes may be a user with a password.
_HOST = r"(?:\[[\w.:%]+\]|(?:[\w.~-]|%2[fF]|\$\{\w+\})+)(?::(?:\d{1,5}|\$\{\w+\}))?"
_SCHEME = r"[a-zA-Z][a-zA-Z0-9+.-]*://"
_ADDRESS = re.compile(
    rf"(?P<scheme>{_SCHEME})(?P<user>[^/?#]*@)?(?P<hosts>(?:{_HOST}(?:,{_HOST})*)?)"
    r"(?P<path>/[^?#@]*)?(?P<query>\?[^#@]*)?(?P<fragment>#[^@]*)?",
    re.DOTALL,
)
_FILE = re.compile(r"(?P<path>(?:sqlite|file):///[^?#]*)(?P<query>[?#].*)?", re.DOTALL)
_LIST_COMMA = re.compile(rf",\s*(?={_SCHEME})")
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_PASSWORD = re.compile(r".*:.*@", re.DOTALL)
_QUERY = re.compile(r"[?&;][\w.-]+=.*", re.DOTALL)
# Paths that are shown. All others may hold a token.
_SHOWN_PATHS = {
    **dict.fromkeys(("s3://", "unix://"), re.compile(r".*", re.DOTALL)),
    **dict.fromkeys(("mongodb://", "mongodb+srv://", "redis://", "rediss://"), re.compile(r"(/([\w-]|\$\{\w+\})*)?")),
}
_ROOT = re.compile("/?")

_SECRET_NAME = re.compile("secret|token|passw|credential", re.IGNORECASE)
# A shorter word also stands in messages that have nothing to do with it.
_LEAST_PASSWORD, _LEAST_OTHER = 4, 6


def mask_url(text: str) -> str:
    """Return `text` without the secrets of the addresses that it consists of.

    `text` is one address, or several separated by commas. Text that is no address is returned unchanged, except
    ``user:password@host`` and ``…?name=value``.
    """
    if "://" in text:
        return ",".join(map(_mask_address, _LIST_COMMA.split(text)))
    if found := _PASSWORD.match(text):
        host = text[found.end() :]
        return f"{MASK}@{host}" if _HOSTS.fullmatch(host) else MASK
    return _QUERY.sub(f"?{MASK}", text)


def hosts_of(url: str) -> str:
    """Return the hosts and ports of an address; the mask if it cannot be parsed."""
    found = _ADDRESS.fullmatch(url)
    return found["hosts"] if found else MASK


def _mask_address(url: str) -> str:
    if found := _FILE.fullmatch(url):
        return found["path"] + (f"{found['query'][0]}{MASK}" if found["query"] else "")
    found = _ADDRESS.fullmatch(url)
    if found is None:
        scheme = re.match(_SCHEME, url)
        return f"{scheme[0] if scheme else ''}{MASK}"
    path = found["path"] or ""
    if not _shown(found).fullmatch(path):
        path = f"/{MASK}"
    user, query, fragment = (found[part] for part in ("user", "query", "fragment"))
    return "".join((
        found["scheme"], f"{MASK}@" if user else "", found["hosts"], path,
        f"?{MASK}" if query else "", f"#{MASK}" if fragment else "",
    ))  # fmt: skip


def _shown(found: re.Match[str]) -> re.Pattern[str]:
    return _SHOWN_PATHS.get(found["scheme"].lower(), _ROOT)


class Redactor:
    """Masks the secrets of `config` and of the environment in any text, as in messages of libraries.

    Secrets are the values of secret settings, the passwords, queries and masked paths of addresses, and the values of
    environment variables that are named like a secret. Passwords of under 4 characters, and other parts of under 6,
    are masked only as part of their whole address.
    """

    def __init__(self, config: BaseModel | None = None, environment: Mapping[str, str] = os.environ) -> None:
        found = {} if config is None else _secrets_of_settings(config)
        for name, value in environment.items():
            if "://" in value and "@" in value:
                found |= _secrets_of_address(value)
            elif _SECRET_NAME.search(name) and len(value) >= _LEAST_OTHER:
                found[value] = MASK
        # Longest first: a shorter one may overlap with the beginning of a longer one, of which the rest would be shown.
        self._masks = sorted(found.items(), key=lambda item: len(item[0]), reverse=True)

    def __call__(self, text: str) -> str:
        """Return `text` with its secrets masked."""
        for secret, mask in self._masks:
            text = text.replace(secret, mask)
        return text


def _secrets_of_settings(config: BaseModel) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in _values(config):
        if isinstance(value, SecretStr):
            secret = value.get_secret_value()
            found |= _secrets_of_address(secret) if "://" in secret else _parts([secret], _LEAST_PASSWORD)
        elif mask_url(value) != value:
            found |= _secrets_of_address(value)
    return found


def _values(value: object) -> Iterator[str | SecretStr]:
    match value:
        case BaseModel():
            for name in type(value).model_fields:
                yield from _values(getattr(value, name))
        case tuple():
            for item in value:
                yield from _values(item)
        case str() | SecretStr():
            yield value


def _secrets_of_address(text: str) -> dict[str, str]:
    found = {text: mask_url(text)}
    for url in _LIST_COMMA.split(text):
        found[url] = mask_url(url)
        parsed = _ADDRESS.fullmatch(url)
        if parsed is None:
            start, _, end = (url.partition("://")[2] or url).rpartition("@")
            suspect = f"{start}?{end.partition('?')[2]}" if start else end
            found |= _parts(re.split(r"[:/?#@&;=,]+", suspect), _LEAST_OTHER)
            continue
        user, colon, password = (parsed["user"] or "").removesuffix("@").partition(":")
        # Without a password, the user is a token.
        found |= _parts([password if colon else user], _LEAST_PASSWORD)
        others = [pair.partition("=")[2] for pair in re.split("[&;]", (parsed["query"] or "")[1:])]
        others.append((parsed["fragment"] or "")[1:])
        if not _shown(parsed).fullmatch(parsed["path"] or ""):
            others.append((parsed["path"] or "").strip("/"))
        found |= _parts(others, _LEAST_OTHER)
    return {secret: mask for secret, mask in found.items() if secret != mask}


def _parts(texts: Iterable[str], least: int) -> dict[str, str]:
    forms = {form for text in texts for form in (text, unquote(text), unquote_plus(text))}
    return {form: MASK for form in forms if len(form) >= least}
