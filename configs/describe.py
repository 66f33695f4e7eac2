"""What each setting means and its default, read from `default.yaml`, the only place that says it."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from memeloom.configs.load import DEFAULTS, read_yaml

_LINE = re.compile(r"(?P<indent> *)(?P<name>\w+):[^#]*(?:# (?P<comment>.*))?$")
_CONTINUED = re.compile(r" *# (?P<comment>.*)$")


@cache
def descriptions() -> Mapping[str, str]:
    """Return the comment of each setting as a sentence, by ``section.key``; empty where it has none."""
    parts: dict[str, list[str]] = {}
    path: list[tuple[int, str]] = []
    for line in DEFAULTS.read_text(encoding="utf-8").splitlines():
        if match := _LINE.match(line):
            indent = len(match["indent"])
            path = [*(each for each in path if each[0] < indent), (indent, match["name"])]
            parts[_key(path)] = [match["comment"] or ""]
        elif path and (match := _CONTINUED.match(line)):
            parts[_key(path)].append(match["comment"])
    return {key: _sentence(" ".join(each).strip()) for key, each in parts.items()}


@cache
def defaults() -> Mapping[str, Any]:
    """Return the default of each setting by ``section.key``."""
    return flattened(read_yaml(DEFAULTS))


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by their full name: ``dataset.split.salt``."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"
        flat |= flattened(value, f"{key}.") if isinstance(value, Mapping) else {key: value}
    return flat


def _key(path: list[tuple[int, str]]) -> str:
    return ".".join(name for _, name in path)


def _sentence(comment: str) -> str:
    return f"{comment[:1].upper()}{comment[1:].removesuffix('.')}." if comment else ""
