"""What a hub reads in the card: the front matter that says which files are which split."""

import re
from typing import Any, Literal

import yaml

from memeloom.dataset.card_text import FORMATS
from memeloom.dataset.formats.contract import Compression, FormatName
from memeloom.dataset.manifest import Manifest
from memeloom.dataset.schema import Split

UNKNOWN = "unknown"
_FRONT = re.compile(r"\A---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
_GLOBS = {"parquet": "{split}-*.parquet", "webdataset": "{split}-*.tar*", "imagefolder": "{split}/**"}
# What yaml raises for a date that does not exist, a value that its tag does not fit, or deep nesting.
_UNREADABLE = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, OverflowError, RecursionError)
_ABOUT_CARD = " `card.html` shows this page with plots."


def hub_configs(form: FormatName | Literal["imagefolder"], manifest: Manifest) -> list[dict[str, Any]]:
    """Return ``configs`` of the front matter: the files of each split, by which `datasets` and hubs load them.

    Empty for formats that `datasets` does not read. Without it, files of pictures would count as a split.
    """
    if form not in _GLOBS:
        return []

    def config(name: str, splits: list[str]) -> dict[str, Any]:
        files = [{"split": split, "path": _GLOBS[form].format(split=split)} for split in splits]
        return {"config_name": name, "data_files": files}

    splits: list[Split] = [split for split, records in manifest.splits.items() if records]
    configs = [{**config("captions", list(splits)), "default": True}]
    if manifest.picture_files and form != "imagefolder":
        configs.append(config("pictures", ["pictures"]))
    return configs


def adapt_readme(
    text: str,
    manifest: Manifest,
    form: FormatName | Literal["imagefolder"],
    compression: Compression,
    *,
    has_page: bool,
) -> str:
    """Return the README of an exported dataset, which may be edited: what it says about the format is replaced.

    manifest: of the dataset that was exported, whose README is `text`. has_page: the export has `card.html`, too.
    """
    old, new = (
        f"{FORMATS[name]} (compression: {packed})."
        for name, packed in ((manifest.format, manifest.compression), (form, compression))
    )
    text = text.replace(old, new)
    if not has_page:
        text = text.replace(_ABOUT_CARD, "")
    facts, rest = _split(text)
    if facts is None:
        return text
    facts.pop("configs", None)
    if configs := hub_configs(form, manifest):
        facts["configs"] = configs
    try:
        front = yaml.safe_dump(facts, sort_keys=False, allow_unicode=True)
    except RecursionError:
        return text
    return f"---\n{front}---\n{rest}"


def licence_of(text: str) -> str | None:
    """Return the licence that the front matter of a README states; None if it states none, or `unknown`."""
    facts, _ = _split(text)
    found = (facts or {}).get("license")
    return found if isinstance(found, str) and found != UNKNOWN else None


def _split(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return the front matter of a README, or None if it has none that can be read, and the rest."""
    front = _FRONT.match(text)
    try:
        facts = yaml.safe_load(front[1]) if front else None
    except _UNREADABLE:
        facts = None
    return (facts, text[front.end() :]) if front and isinstance(facts, dict) else (None, text)
