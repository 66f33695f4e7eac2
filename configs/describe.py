"""What each setting means and its default, read from `default.yaml` and the sources' `defaults.yaml`."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from memeloom.configs.load import DEFAULTS, read_defaults
from memeloom.configs.sources import known_sources

_LINE = re.compile(r"(?P<indent> *)(?P<name>\w+):[^#]*(?:# (?P<comment>.*))?$")
_CONTINUED = re.compile(r" *# (?P<comment>.*)$")


@cache
def descriptions() -> Mapping[str, str]:
    """Return the comment of each setting as a sentence, by ``section.key``; empty where it has none."""
    parts = _comments(DEFAULTS)
    for name, source in known_sources().items():
        parts |= {f"crawl.{name}.{key}": comment for key, comment in _comments(source.defaults).items()}
    return {key: _sentence(" ".join(each).strip()) for key, each in parts.items()}


@cache
def defaults() -> Mapping[str, Any]:
    """Return the default of each setting by ``section.key``."""
    return flattened(read_defaults())


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by their full name: ``dataset.split.salt``."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"
        flat |= flattened(value, f"{key}.") if isinstance(value, Mapping) else {key: value}
    return flat


def _comments(file: Path) -> dict[str, list[str]]:
    """Return the lines of each setting's comment."""
    parts: dict[str, list[str]] = {}
    path: list[tuple[int, str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if match := _LINE.match(line):
            indent = len(match["indent"])
            path = [*(each for each in path if each[0] < indent), (indent, match["name"])]
            parts[_key(path)] = [match["comment"] or ""]
        elif path and (match := _CONTINUED.match(line)):
            parts[_key(path)].append(match["comment"])
    return parts


def _key(path: list[tuple[int, str]]) -> str:
    return ".".join(name for _, name in path)


def _sentence(comment: str) -> str:
    return f"{comment[:1].upper()}{comment[1:].removesuffix('.')}." if comment else ""
