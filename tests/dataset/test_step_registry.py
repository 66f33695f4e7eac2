"""Steps by name: the order of the settings, and mistakes in them."""

import random
from typing import Any

import pytest

from memeloom.configs.errors import ConfigError
from memeloom.configs.schema import Dataset
from memeloom.dataset.steps.batch import apply_to_batch
from memeloom.dataset.steps.caption import Caption
from memeloom.dataset.steps.registry import STEPS, build_steps
from memeloom.engine.steps import Drop, apply_steps


def changed(settings: Dataset, **changes: Any) -> Dataset:
    return settings.model_copy(update=changes)


def caption(*boxes: str, over_18: bool = False) -> Caption:
    return Caption("imgflip:1", "imgflip", "t", "Name", "slug", boxes, over_18=over_18)


HALF = caption("one")._replace(boxes=("one", ""))
THREE_EXPECTED = caption("one")._replace(box_count=3)
WIDE = caption("one")._replace(width=400, height=99)


def test_the_default_has_every_step(settings: Dataset) -> None:
    assert settings.steps == (*STEPS, "duplicates")
    assert len(build_steps(settings)) == len(STEPS)


def test_steps_run_in_the_order_of_the_settings(settings: Dataset) -> None:
    text = caption("   short   ")
    length_first = build_steps(changed(settings, steps=("length", "whitespace")))
    assert apply_steps(length_first, text) == (caption("short"), None)
    assert apply_steps(build_steps(changed(settings, steps=("whitespace", "length"))), text)[1] == Drop("too short")


def test_an_unknown_step_names_the_nearest(settings: Dataset) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.steps: unknown step 'lenght'; did you mean length\?"):
        build_steps(changed(settings, steps=("lenght",)))
    with pytest.raises(ConfigError, match=r"unknown step 'xyz'; known are typography, .*duplicates"):
        build_steps(changed(settings, steps=("xyz",)))


@pytest.mark.parametrize("steps", [("duplicates", "length"), ("duplicates", "duplicates")])
def test_duplicates_come_last_and_once(settings: Dataset, steps: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="duplicates looks at finished captions"):
        build_steps(changed(settings, steps=steps))


@pytest.mark.parametrize(
    ("step", "changes", "text", "outcome"),
    [
        ("characters", {"characters": "any"}, caption("naïve"), caption("naïve")),
        ("characters", {"characters": "ascii"}, caption("naïve"), Drop("characters")),
        ("typography", {"characters": "any"}, caption("it’s"), caption("it’s")),
        ("typography", {"characters": "ascii"}, caption("it’s"), caption("it's")),
        ("separator", {"separator": ";"}, caption("a;b"), Drop("separator")),
        ("length", {"max_characters": 3}, caption("four"), Drop("too short")),
        ("length", {"min_characters": 0, "max_characters": 3}, caption("four"), Drop("too long")),
        ("boilerplate", {}, caption("imgflip.com"), Drop("boilerplate")),
        ("boxes", {}, caption(" "), Drop("empty caption")),
        ("boxes", {"empty_boxes": True}, HALF, HALF),
        ("boxes", {"empty_boxes": False}, HALF, Drop("empty box")),
        ("boxes", {"box_count": "any"}, THREE_EXPECTED, THREE_EXPECTED),
        ("boxes", {"box_count": "template"}, THREE_EXPECTED, Drop("box count")),
        ("image", {"images": "meme", "min_image_side": 100}, WIDE, Drop("picture too small")),
        ("image", {"images": "meme", "min_image_side": 99, "max_image_aspect": 2.0}, WIDE, Drop("picture too long")),
        ("image", {"images": "meme", "min_image_side": 99, "max_image_aspect": 5.0}, WIDE, WIDE),
        ("image", {"images": "none"}, WIDE, WIDE),
        ("nsfw", {"nsfw": True}, caption("text", over_18=True), caption("text", over_18=True)),
        ("nsfw", {"nsfw": False}, caption("text", over_18=True), Drop("nsfw")),
        ("language", {"languages": ()}, caption("???"), caption("???")),
        ("language", {"language_detector": "langdetect"}, caption("ich habe keine ahnung"), Drop("language")),
        ("profanity", {"profanity": "off"}, caption("shit"), caption("shit")),
        ("profanity", {"profanity": "drop"}, caption("shit"), Drop("profanity: strong", "shit")),
        ("profanity", {}, caption("too damn high"), caption("too damn high")),
        ("profanity", {"profanity_tiers": ("mild",)}, caption("shit"), caption("shit")),
        ("profanity", {"profanity_tiers": ("mild",)}, caption("damn"), Drop("profanity: mild", "damn")),
        ("profanity", {"profanity": "censor"}, caption("shit"), caption("****")),
        ("profanity", {"profanity_allow": ("shit",)}, caption("shit"), caption("shit")),
        ("profanity", {"profanity_deny": ("moist",)}, caption("moist"), Drop("profanity: denied", "moist")),
    ],
)
def test_every_setting_reaches_its_step(
    settings: Dataset, step: str, changes: dict[str, Any], text: Caption, outcome: Caption | Drop
) -> None:
    steps = build_steps(changed(settings, steps=(step,), **changes))
    caption, drop = apply_steps(steps, text)
    assert (drop or caption) == outcome
    assert apply_to_batch(steps, [text]) == [outcome]


WORDS = (
    "one", "does", "NOT", "simply", "walk", "into", "", " ", "  ", "imgflip.com", "@name", "sh1t", "fuuuck",
    "damn", "|",
    "it\u2019s", "\u03a3\u0399\u03a3", "na\u00efve", "\u0130", "que", "tiene", "prisa", "ich", "habe",
    "\u00a0", "\n", "\t", "e\u0301", "!!!",
    "xx" * 40,
)  # fmt: skip


@pytest.mark.parametrize("characters", ["ascii", "any"])
def test_a_batch_has_the_result_of_each_caption_alone(settings: Dataset, characters: str) -> None:
    chance = random.Random(1)
    captions = [
        caption(*[" ".join(chance.choices(WORDS, k=chance.randrange(6))) for _ in range(chance.randrange(4))],
                over_18=chance.random() < 0.1)
        for _ in range(2000)
    ]  # fmt: skip
    steps = build_steps(changed(settings, characters=characters))
    alone = [drop or after for after, drop in (apply_steps(steps, each) for each in captions)]
    assert apply_to_batch(steps, captions) == alone
    assert len({each.reason for each in alone if isinstance(each, Drop)}) > 8
