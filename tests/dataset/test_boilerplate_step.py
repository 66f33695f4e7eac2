"""The boilerplate step removes watermarks of sites, apps and authors, and keeps captions about them."""

import pytest

from memeloom.dataset.steps.boilerplate import strip_boilerplate
from memeloom.dataset.steps.caption import Caption
from memeloom.engine.steps import Drop, Keep


def caption(*boxes: str) -> Caption:
    return Caption("imgflip:1", "imgflip", "t", "Name", "slug", boxes)


@pytest.mark.parametrize(
    "mark",
    [
        "imgflip.com", "IMGFLIP.COM", "https://imgflip.com/i/3vmgm2", "www.imgflip.com", "made w/ imgflip",
        "made with mematic", "Made With Mematic", "made with imgflip meme generator", "via 9gag.com", "via 9gag",
        "memegenerator.net", "quickmeme.com", "created with kapwing", "ifunny.co", "ifunny.mobi", "@loyaltypetproducts",
        "IG @imkwanho", "@lorentimez on ig", "follow @somebody on twitter", "credit: @some.body", "u/over_dose_gaming",
        "https://youtu.be/07ed0tqdkm4", "www.clatzone.com", "twitch.tv/typlayer1", "bit.ly/cutecomfy", "©dml",
        "copyright 2018 somebody, all rights reserved", "@one @two", "- @somebody -",
    ],
)  # fmt: skip
def test_a_watermark_in_its_own_box_leaves_the_box_blank(mark: str) -> None:
    assert strip_boilerplate(caption("when you see it", mark)) == Keep(caption("when you see it", ""))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("dont get mad, get rich! @softworkteam", "dont get mad, get rich!"),
        ("the tofu is strong with this one. @mikeylovestofu", "the tofu is strong with this one."),
        ("the look you have. - @my_government_name", "the look you have."),
        ("it has a sin problem. www.needgod.com", "it has a sin problem."),
        ("nobody: me at 3am! imgflip.com", "nobody: me at 3am!"),
        ("why not both? made with mematic", "why not both?"),
        ("that moment https://example.com/a @somebody", "that moment"),
    ],
)
def test_a_watermark_at_the_end_is_removed(text: str, left: str) -> None:
    assert strip_boilerplate(caption(text)) == Keep(caption(left))


@pytest.mark.parametrize(
    "boxes",
    [
        ("imgflip is down again",), ("me: discovers imgflip", "my homework"), ("the number of reposts on imgflip.com",),
        ("when your school blocks imgflip.com", "nooooo"), ("did you see the meme i made on imgflip",),
        ("imgflip", "9gag", "me"), ("imgflip.com", "y u no remove watermark"), ("removes the watermark", "imgflip pro"),
        ("i'll just look up my symptoms on webmd.com",), ("amazon.com", "my wallet"), ("9gag... y u no change",),
        ("dumped me via email",), ("made in china", "made with 100% juice"), ("hey @sapresident why you no tweet?",),
        ("so you are calling me @somebody",), ("spamming @everyone",), ("meet me @ 5", "and/or later", "w/o a phone"),
        ("at&t... and 50/50", "s/he said 1/2"), ("what is r/memes?",), ("", "only the second box"),
    ],
)  # fmt: skip
def test_captions_about_sites_are_kept(boxes: tuple[str, ...]) -> None:
    assert strip_boilerplate(caption(*boxes)) == Keep(caption(*boxes))


@pytest.mark.parametrize(
    "boxes",
    [
        ("imgflip.com",),
        ("", "@drugginmemes"),
        ("joinhoney.com/ref/osmxsg0",),
        ("type www.google.com in the google search bar",),
        ("that thinks https://imgflip.com/i/1dmjnu", "should have more views", "than https://a.example/b c"),
    ],
)
def test_only_watermarks_or_an_address_inside_a_text_are_dropped(boxes: tuple[str, ...]) -> None:
    assert strip_boilerplate(caption(*boxes)) == Drop("boilerplate")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "hostile",
    [
        "http://a" * 12_000 + " x",
        "@ab " * 25_000 + "x",
        "a." * 50_000 + "com",
        "a-" * 50_000 + ".com",
        "via " * 25_000,
        "@" * 100_000,
        "imgflip.com/ " * 8_000 + "?? x",
    ],
)
def test_hostile_text_takes_linear_time(hostile: str) -> None:
    strip_boilerplate(caption(hostile))
