r"""Addresses of pictures: their lines of text stand in the path, with memegen's escapes.

``_`` and ``-`` are spaces, ``__`` an underscore, ``--`` a dash, ``''`` a double quote, ``~n`` a new line, and
``~q ~a ~p ~h ~s ~b ~l ~g`` stand for ``? & % # / \ < >``. In a run of an odd number of underscores or dashes the first
is the space. A line that is empty is ``_``. One escape is ours: ``~t`` is a tilde, needed before these letters only.

`encode_lines` is the inverse of `decode_lines`, except that two apostrophes become a double quote, and that spaces at
the ends of a line are lost.
"""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

_ESCAPES: Final = {
    "\n": "~n", "?": "~q", "&": "~a", "%": "~p", "#": "~h", "/": "~s", "\\": "~b", "<": "~l", ">": "~g", '"': "''",
}  # fmt: skip
_UNESCAPED: Final = {escape: character for character, escape in _ESCAPES.items()} | {"~t": "~"}
_TOKEN: Final = re.compile(r"~[nqaphsblgt]|''|_+|-+")
_AFTER_TILDE: Final = frozenset("nqaphsblgt")
# What a path may hold beside letters and digits (RFC 3986); the others are percent-encoded.
_SAFE_IN_PATH: Final = "/!$'()*+,;=:@~"
# The same for a query; memegen's clients expect addresses in it as they are.
_SAFE_IN_QUERY: Final = "/:,;@!$'()*~?"


def decode_lines(path: str) -> list[str]:
    """Return the lines of a percent-decoded path, without spaces at their ends and without empty lines at the end."""
    lines = [_TOKEN.sub(_decoded, part).strip() for part in path.split("/")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def encode_lines(lines: Sequence[str]) -> str:
    """Return the canonical path of lines, not percent-encoded; ``_`` if all are empty."""
    kept = [line.strip() for line in lines]
    while kept and not kept[-1]:
        kept.pop()
    return "/".join(map(_encoded, kept)) or "_"


def quoted(path: str) -> str:
    """Percent-encode a path for an address."""
    return quote(path, safe=_SAFE_IN_PATH)


def image_url(base: str, template: str, lines: Sequence[str], extension: str, **query: object) -> str:
    """Return the canonical address of a picture.

    Args:
        base: of the server.
        template: its name in addresses.
        lines: the texts; without any, the address is that of the blank picture.
        extension: of the file.
        query: parameters; empty ones are left out, a sequence is repeated.
    """
    path = encode_lines(lines)
    text = "" if path == "_" else f"/{path}"
    pairs = []
    for name, value in query.items():
        values = value if isinstance(value, list | tuple) else [value]
        if any(each not in (None, "") for each in values):
            pairs += [f"{name}={quote(str(each), safe=_SAFE_IN_QUERY)}" for each in values]
    return f"{base}{quoted(f'/images/{template}{text}')}.{extension}{'?' if pairs else ''}{'&'.join(pairs)}"


def _decoded(token: re.Match[str]) -> str:
    text = token[0]
    if text[0] in "_-":
        return " " * (len(text) % 2) + text[0] * (len(text) // 2)
    return _UNESCAPED[text]


def _encoded(line: str) -> str:
    if not line:
        return "_"
    if line in (".", ".."):
        return f"{line}_"  # clients resolve these as folders
    path = ""
    for before, character, after in zip(f"\n{line}", line, f"{line[1:]}\n", strict=False):
        if character == " ":
            # Not the same twice: a run of two is no longer a space.
            path += "-" if path.endswith("_") else "_"
        elif character in "_-":
            path += character * 2
        elif character == "~":
            path += "~t" if after in _AFTER_TILDE else "~"
        elif character == '"' and before == "'":
            path += character  # of three apostrophes the first two would be the quote
        else:
            path += _ESCAPES.get(character, character)
    return path
