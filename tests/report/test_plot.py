"""Plots: round ticks, what is drawn, and colours that follow light and dark."""

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from memeloom.report.plot import Plot, Series, figure, picture, round_ticks, time_ticks
from tests.html_page import HOSTILE, Page

LINE = Series("memes", [(0, 1.0), (1, 4.0), (2, None), (3, 2.0)])


def elements(svg: str, tag: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 1050, [0, 500, 1000, 1500]), (0, 0, [0, 1]), (1.5, 3.3, [1.5, 2, 2.5, 3, 3.5])],
)
def test_ticks_are_round_and_reach_both_ends(low: float, high: float, ticks: list[float]) -> None:
    assert round_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize("value", [3e-7, -3.0, 123456.0])
def test_ticks_surround_a_single_value(value: float) -> None:
    ticks = round_ticks(value, value)
    assert ticks[0] <= value <= ticks[-1]
    assert 2 <= len(ticks) <= 7


def test_time_ticks_are_whole_units() -> None:
    assert time_ticks(101_000) == {0: "0", 21600: "6 h", 43200: "12 h", 64800: "18 h", 86400: "1 d"}
    assert list(time_ticks(50).values()) == ["0", "10 s", "20 s", "30 s", "40 s", "50 s"]


def test_a_gap_divides_a_line_and_every_series_is_in_the_legend() -> None:
    other = Series("pages", [(0, 1.0), (3, 1.0)])
    page = Page(figure(Plot(title="Rates", series=[LINE, other], summary="few", levels={"goal": 2.0})))
    lines = [each for each in page.of("path") if (each["class"] or "").startswith("line")]
    assert [each["class"] for each in lines] == ["line c0", "line c0", "line c1"]
    assert page.of("svg")[0]["aria-label"] == "Rates: few"
    assert {"memes", "pages", "goal"} <= set(page.text.split())


def test_stacked_columns_stand_on_each_other_and_small_ones_are_visible() -> None:
    parts = [Series("many", [(1, 1e6)], ["many: 1M"]), Series("few", [(1, 1.0)], ["few: 1"])]
    drawn = str(figure(Plot(title="Stack", series=parts, kind="columns")))
    many, few = (path["d"] or "" for path in Page(drawn).of("path") if (path["class"] or "").startswith("fill"))
    top = float(many.split("V")[1].split("H")[0])
    bottom, upper = (float(few.split("V")[at].split("H")[0].split()[-1].rstrip("Z")) for at in (0, 1))
    assert bottom == top
    assert bottom - upper >= 1.5


def test_logarithmic_axes_show_powers_of_ten() -> None:
    points = [(rank, 5000 / rank) for rank in range(1, 1000, 9)]
    text = Page(figure(Plot(title="Ranks", series=[Series("captions", points)], log=True))).text.split()
    assert {"1", "10", "100", "1k", "10k"} <= set(text)


@pytest.mark.parametrize("series", [[], [Series("a", [(0, None)])]])
def test_a_plot_of_nothing_says_so(series: list[Series]) -> None:
    assert "nothing to show" in figure(Plot(title="Empty", series=series))


def test_a_lone_svg_follows_light_and_dark_and_loads_nothing() -> None:
    drawn = picture([Plot(title=name, series=[LINE, LINE], y_min=None, levels={"goal": 1}) for name in "abc"])
    (style,) = elements(drawn, "style")
    assert "prefers-color-scheme: dark" in str(style.text)
    assert not elements(drawn, "script")
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    assert [text.text for text in elements(drawn, "text") if text.get("class") == "title"] == ["a", "b", "c"]


def test_names_at_the_ends_of_lines_do_not_overlap() -> None:
    series = [Series(name, [(0, 1.0), (1, 2.0 + at / 1000)]) for at, name in enumerate("abcd")]
    names = [each for each in elements(picture([Plot(title="t", series=series)]), "text")
             if "name" in str(each.get("class"))]  # fmt: skip
    places = sorted(float(str(each.get("y"))) for each in names)
    assert all(below - above >= 12 for above, below in pairwise(places))


def test_hostile_names_stay_text() -> None:
    plot = Plot(title=HOSTILE, series=[Series(HOSTILE, [(0, 1.0)], [HOSTILE]), LINE], summary=HOSTILE, x_label=HOSTILE,
                x_ticks={0: HOSTILE}, y_format=lambda _: HOSTILE, levels={HOSTILE: 1.0}, dots=True)  # fmt: skip
    page = Page(figure(plot))
    assert not page.of("script")
    assert not page.of("img")
    assert HOSTILE in page.text
    assert ET.fromstring(picture([plot])) is not None
