"""What both cards say in words, and how they show what strangers wrote: on one line, with nothing that is obeyed."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from memeloom.dataset.counts import Copies
from memeloom.dataset.formats.contract import FormatName
from memeloom.dataset.manifest import Manifest
from memeloom.dataset.steps.registry import DUPLICATES

FORMATS: Final[Mapping[FormatName, str]] = MappingProxyType({
    "tfrecord": "Shards are TFRecord files of `tf.train.Example`",
    "parquet": "Shards are Parquet files, a column for each feature",
    "webdataset": "Shards are tar files as `webdataset` reads them: `.json` and picture of each record",
    "dummy": "Records were counted and not written",
})  # fmt: skip
LICENCE: Final = (
    "Captions and pictures belong to the people who made them; the sites that they come from have terms of their own. "
    "Use this data for research, and ask before you pass it on.",
    "Who wants a meme removed gives its address or id: `memeloom purge` takes it out of the catalog for good, and the "
    "next build leaves it out of the dataset.",
)
PICTURES: Final = MappingProxyType({
    "none": "no pictures",
    "template": "the blank picture of the template",
    "meme": "the meme's picture",
    "inpainted": "the meme's picture without its words",
})  # fmt: skip
OTHERS: Final = "others"
_MOST_SOURCES = 5
_PAIRS_SEEN = 200
_LONGEST = 300  # characters
# What is obeyed rather than shown: control characters, marks that turn the direction of writing, half surrogate pairs.
_OBEYED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


def shown(text: str, most: int = _LONGEST) -> str:
    """A text of a stranger on one line of at most `most` characters; what would be obeyed stands as its code point."""
    line = _OBEYED.sub(lambda found: f"\\u{ord(found.group()):04x}", " ".join(text[: 4 * most].split()))
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def masked(entry: str) -> str:
    """An entry of a list of bad words as a page may show it: its first and last letter."""
    inside = re.sub(r"\S", "*", entry[1:-1])
    return f"{entry[:1]}{inside}{entry[-1:]}" if len(entry) > 2 else f"{entry[:1]}*"


def found_on_lists(manifest: Manifest, most: int) -> dict[str, list[tuple[str, int]]]:
    """Of each reason that comes from a list the entries that were found most, masked, with their numbers."""
    return {
        reason: [(shown(masked(entry), 40), count) for entry, count in ranked(entries)[:most]]
        for reason, entries in manifest.details.items()
    }


def about(manifest: Manifest) -> tuple[str, str]:
    """What the dataset is, in two lines."""
    memes = manifest.records + sum(manifest.dropped.values())
    steps = _settings(manifest)
    languages = ", ".join(steps["languages"]) if "language" in steps["steps"] else ""
    return (
        f"{manifest.records:,} captions on {len(manifest.templates):,} templates, kept from {memes:,} memes by "
        "`memeloom build-dataset`.",
        f"A record is one caption, box by box, with its template"
        f"{'' if manifest.images == 'none' else f' and {PICTURES[manifest.images]}'}; "
        f"{f'language: {languages}' if languages else 'any language'}.",
    )


def how_split(settings: Mapping[str, Any]) -> str:
    """How captions fall to training, validation and test, in words. settings: those of the manifest's lineage."""
    split, growth = settings["split"], "Adding memes moves none to another side."
    shares = f"{100 * split['validation']:g} % for validation, {100 * split['test']:g} % for test"
    match split["by"]:
        case "template":
            return (
                f"By a hash of the template (salt {shown(split['salt'], 40)}): {shares}, all captions of a template on "
                f"one side, so that those of validation and test are unseen in training. {growth}"
            )
        case "time":
            unique = " Equal captions never stand on two sides." if DUPLICATES in settings["steps"] else ""
            return (
                f"By the time of the post, in UTC: {_eras(split['validation_from'], split['test_from'])}. "
                f"Memes of unknown time are left out.{unique} {growth}"
            )
        case _:
            return (
                f"By a hash of template and words (salt {shown(split['salt'], 40)}): {shares}. Equal captions on a "
                f"template never stand on two sides, whatever their case and spacing. {growth}"
            )


def _eras(validation: str | None, test: str | None) -> str:
    first = validation or test
    eras = [f"training before {first}"]
    if validation:
        eras.append(f"validation from {validation} {f'until {test}' if test else 'on'}")
    if test:
        eras.append(f"test from {test} on")
    return ", ".join(eras)


def split_line(settings: Mapping[str, Any]) -> str:
    """The same in a few words."""
    split = settings["split"]
    if split["by"] == "time":
        return f"by time: {_eras(split['validation_from'], split['test_from'])}"
    return f"by {split['by']}: {100 * split['validation']:g} % validation, {100 * split['test']:g} % test"


def what_is_a_copy(settings: Mapping[str, Any]) -> str:
    """Which captions count as copies of others, in words. settings: those of the manifest's lineage."""
    if DUPLICATES not in settings["steps"]:
        return "Copies were not looked for."
    sentences = [
        "Of captions on one template with the same words, whatever their case, spacing and boxes, the one that was "
        "posted first stays, else the one with the lowest id."
    ]
    if settings["near_text"] is not None:
        sentences.append(
            f"Words that are alike by {settings['near_text']:g} or more (Jaccard index of four-byte pieces), or one "
            "letter apart, are nearly the same: one caption stays."
        )
    if settings["near_image"] is not None:
        sentences.append(
            f"So it is with pictures that differ in at most {settings['near_image']} of 256 bits of their perceptual "
            "hash, if half of the words agree."
        )
    return " ".join(sentences)


def copies_line(manifest: Manifest) -> str:
    """How many groups of equal captions there were, and how many captions went because they were nearly equal."""
    near, pictures = (manifest.dropped.get(reason, 0) for reason in ("near duplicate", "same picture"))
    gone = f" {near:,} went as nearly equal, {pictures:,} for their picture." if near or pictures else ""
    if not manifest.clusters:
        return f"No two captions on a template were equal.{gone}"
    captions = sum(size * groups for size, groups in manifest.clusters.items())
    groups = sum(manifest.clusters.values())
    return (
        f"{captions:,} captions stood in {groups:,} {'group' if groups == 1 else 'groups'} of equal ones, "
        f"the largest of {max(manifest.clusters):,}.{gone}"
    )


def near_pairs(copies: Copies, most: int) -> list[tuple[float, str, str]]:
    """Captions that were nearly equal, as `Copies.samples`: those that differ in more than punctuation, if any do."""
    pairs = copies.samples(_PAIRS_SEEN)
    return ([pair for pair in pairs if pair[1] != pair[2]] or pairs)[:most]


def sources_of(manifest: Manifest) -> list[str]:
    """The sources that have a column of their own, and `OTHERS` if there are more; none if there is but one source."""
    names = list(manifest.lineage.sources)
    if len(names) <= 1:
        return []
    return names if len(names) <= _MOST_SOURCES + 1 else [*names[:_MOST_SOURCES], OTHERS]


def fates(manifest: Manifest) -> list[tuple[str, int, list[int]]]:
    """What became of the memes: ``kept``, and each reason for a drop; their number, and that of each source."""
    columns = sources_of(manifest)
    every = list(manifest.lineage.sources)

    def by_source(counts: Mapping[str, int]) -> list[int]:
        rest = sum(counts.get(source, 0) for source in every if source not in columns)
        return [rest if column == OTHERS else counts.get(column, 0) for column in columns]

    rows = [("kept", manifest.records, by_source(manifest.kept))]
    for reason, count in manifest.dropped.items():
        sources = {source: reasons.get(reason, 0) for source, reasons in manifest.by_source.items()}
        rows.append((reason, count, by_source(sources)))
    return rows


def ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Most first; equal ones by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def visible(character: str) -> str:
    """A character as a label."""
    return "␣" if character == " " else shown(character)


def share(part: int, whole: int) -> str:
    """A share in per cent; small ones with more digits."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.3f} %" if 0 < percent < 0.05 else f"{percent:.1f} %"


def unsafe_pictures(manifest: Manifest) -> bool:
    """Whether there may be pictures in it that their sites mark as not safe for work."""
    settings = _settings(manifest)
    return manifest.images != "none" and (settings["nsfw"] or "nsfw" not in settings["steps"])


def language_line(manifest: Manifest) -> str:
    """What was asked of the language, and what came of it."""
    settings = _settings(manifest)
    if "language" not in settings["steps"] or not settings["languages"]:
        return "No language was asked for."
    dropped, memes = manifest.dropped.get("language", 0), manifest.lineage.memes
    return (
        f"{dropped:,} memes ({share(dropped, memes)}) were dropped as in another language than "
        f"{_or(settings['languages'])}, as {settings['language_detector']} and common words judge them (less "
        f"probable than {settings['language_threshold']:g})."
    )


def profanity_line(manifest: Manifest) -> str:
    """What was done about profanity, and what came of it."""
    settings = _settings(manifest)
    if "profanity" not in settings["steps"] or settings["profanity"] == "off":
        return "Nothing was done about profanity."
    tiers = _or(settings["profanity_tiers"]) if settings["profanity_tiers"] else "no tier"
    if settings["profanity"] == "censor":
        return f"Words of the tiers {tiers} are written with stars; nothing was dropped."
    count = sum(n for reason, n in manifest.dropped.items() if reason.startswith("profanity"))
    return f"{count:,} memes ({share(count, manifest.lineage.memes)}) were dropped for words of the tiers {tiers}."


def profanity_counts(manifest: Manifest) -> list[tuple[str, int]]:
    """Dropped memes by tier, and those whose template's name did it."""
    return [(reason.removeprefix("profanity: "), n) for reason, n in manifest.dropped.items() if "profanity" in reason]


def _or(names: Sequence[str]) -> str:
    return " or ".join(names)


def _settings(manifest: Manifest) -> Mapping[str, Any]:
    return manifest.lineage.settings
