"""Layout: words to lines, lines to boxes, boxes in reading order."""

from memeloom.catalog.records import TemplateBox
from memeloom.ocr.engines.contract import Word
from memeloom.ocr.layout import fill_boxes, find_boxes, find_lines

TOP = TemplateBox(x=0.0, y=0.0, width=1.0, height=0.25)
BOTTOM = TemplateBox(x=0.0, y=0.75, width=1.0, height=0.25)


def line(text: str, x: float, y: float, number: int, height: float = 0.06) -> list[Word]:
    """Words from `x` on, each as wide as its letters are many."""
    words = []
    for word in text.split():
        words.append(Word(word, x, y, 0.02 * len(word), height, 90.0, number))
        x += 0.02 * (len(word) + 1)
    return words


def boxes(*words: Word) -> list[str]:
    return [box.text for box in find_boxes(find_lines(words, aspect=1.0))]


def test_lines_close_together_are_one_box() -> None:
    words = line("one does not", 0.1, 0.05, 0) + line("simply walk", 0.12, 0.13, 1)
    assert boxes(*words) == ["one does not simply walk"]


def test_boxes_do_not_depend_on_the_engines_order() -> None:
    words = line("bottom text", 0.1, 0.85, 0) + line("top text", 0.1, 0.05, 1)
    assert boxes(*words) == ["top text", "bottom text"]


def test_panels_are_read_row_by_row_from_the_left() -> None:
    words = (
        line("four", 0.7, 0.72, 0) + line("two", 0.7, 0.1, 1) + line("three", 0.1, 0.7, 2) + line("one", 0.1, 0.12, 3)
    )
    assert boxes(*words) == ["one", "two", "three", "four"]


def test_a_heading_and_small_print_under_it_are_two_boxes() -> None:
    words = line("HEADING", 0.1, 0.1, 0, height=0.12) + line("small print", 0.1, 0.24, 1, height=0.03)
    assert boxes(*words) == ["HEADING", "small print"]


def test_pieces_of_a_line_are_joined() -> None:
    words = line("RIGHT", 0.34, 0.1, 0) + line("LEFT AND", 0.1, 0.105, 1)
    assert boxes(*words) == ["LEFT AND RIGHT"]


def test_words_far_apart_in_a_row_are_two_boxes() -> None:
    assert boxes(*line("you", 0.05, 0.1, 0), *line("me", 0.8, 0.1, 1)) == ["you", "me"]
    assert boxes(*line("you", 0.05, 0.1, 0), *line("me", 0.8, 0.1, 0)) == ["you", "me"]


def test_a_box_has_position_and_confidence() -> None:
    words = [Word("sure", 0.1, 0.2, 0.2, 0.05, 100.0, 0), Word("hardly", 0.34, 0.21, 0.36, 0.05, 60.0, 0)]
    (box,) = find_boxes(find_lines(words, aspect=1.0))
    assert (box.x, box.y) == (0.1, 0.2)
    assert (round(box.width, 6), round(box.height, 6)) == (0.6, 0.06)
    assert box.confidence == 80.0


def test_a_box_has_the_places_of_its_lines() -> None:
    words = [Word("one", 0.1, 0.2, 0.2, 0.05, 99.0, 0), Word("more", 0.34, 0.21, 0.36, 0.05, 99.0, 0),
             Word("line", 0.3, 0.28, 0.1, 0.04, 99.0, 1)]  # fmt: skip
    (box,) = find_boxes(find_lines(words, aspect=1.0))
    assert box.lines == ((0.1, 0.2, 0.6, 0.06), (0.3, 0.28, 0.1, 0.04))


def test_texts_are_in_the_order_of_the_template() -> None:
    words = line("first", 0.3, 0.05, 0) + line("second", 0.3, 0.9, 1)
    assert [box.text for box in fill_boxes(words, 1.0, [BOTTOM, TOP])] == ["second", "first"]


def test_places_side_by_side_keep_their_lines_apart() -> None:
    left = TemplateBox(x=0.0, y=0.0, width=0.5, height=0.3)
    right = TemplateBox(x=0.5, y=0.0, width=0.5, height=0.3)
    words = line("mine is", 0.32, 0.05, 0) + line("yours is", 0.53, 0.05, 1)
    words += line("here", 0.36, 0.12, 2) + line("there", 0.55, 0.12, 3)
    assert [box.text for box in fill_boxes(words, 1.0, [left, right])] == ["mine is here", "yours is there"]


def test_a_place_without_text_is_an_empty_box() -> None:
    top, bottom = fill_boxes(line("only below", 0.3, 0.9, 0), 1.0, [TOP, BOTTOM])
    assert (top.text, top.x, top.y, top.width, top.height) == ("", 0.0, 0.0, 1.0, 0.25)
    assert bottom.text == "only below"


def test_text_outside_all_places_goes_to_the_nearest() -> None:
    words = line("where the user moved it", 0.1, 0.6, 0)
    assert [box.text for box in fill_boxes(words, 1.0, [TOP, BOTTOM])] == ["", "where the user moved it"]


def test_no_words_are_no_boxes() -> None:
    assert find_boxes(find_lines([], aspect=1.0)) == []
