"""Finding lines in the detector's map: lines that fade on the small copy of a picture are searched again, larger."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memeloom.ocr.engines.rapidocr_lines import detect_lines

TOP, BOTTOM = slice(60, 76), slice(260, 276)


class Detector:
    """Takes brightness for probability: bright pixels are lines, and dim ones too on pictures of more than `sharp`."""

    def __init__(self, sharp: float) -> None:
        self.sharp = sharp
        self.shapes: list[tuple[int, int]] = []

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name="x")]

    def run(self, _outputs: None, inputs: dict[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        bright = (inputs["x"][:, :1] + 1) / 2
        self.shapes.append((bright.shape[2], bright.shape[3]))
        # The picture has 320 pixels a row.
        return [np.where((bright > 0.1) & (bright.shape[3] / 320 > self.sharp), 0.9, bright).astype(np.float32)]


def picture(*, fades: bool) -> NDArray[np.uint8]:
    """Two lines; the upper fades in its right half."""
    made = np.zeros((320, 320, 3), np.uint8)
    made[TOP, 40:280] = made[BOTTOM, 40:280] = 255
    if fades:
        made[TOP, 150:280] = 40
    return made


def spans(lines: list[NDArray[np.float32]]) -> list[tuple[int, int, int]]:
    """Left, right and middle of each line, in tens of pixels."""
    return [
        (round(line[:, 0].min() / 10), round(line[:, 0].max() / 10), round(line[:, 1].mean() / 10)) for line in lines
    ]


def test_whole_lines_are_found_at_one_look() -> None:
    detector = Detector(sharp=1.5)
    assert spans(detect_lines(detector, picture(fades=False), 320)) == [(3, 29, 7), (3, 29, 27)]
    assert detector.shapes == [(320, 320)]


def test_a_line_that_fades_is_searched_again_in_its_rows_on_a_larger_copy() -> None:
    detector = Detector(sharp=1.5)
    assert spans(detect_lines(detector, picture(fades=True), 320)) == [(3, 29, 7), (3, 29, 27)]
    first, second = detector.shapes
    assert second[1] > first[1]
    assert second[0] < first[0], "the rows of that line only"


def test_a_line_that_fades_in_the_larger_copy_too_stays_as_it_was() -> None:
    upper, lower = spans(detect_lines(Detector(sharp=9), picture(fades=True), 320))
    assert (upper[0], lower) == (3, (3, 29, 27))
    assert upper[1] < 20


def test_a_line_that_is_not_found_again_stays() -> None:
    class Once(Detector):
        def run(self, outputs: None, inputs: dict[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
            found = super().run(outputs, inputs)
            return found if len(self.shapes) == 1 else [np.zeros_like(found[0])]

    assert len(detect_lines(Once(sharp=9), picture(fades=True), 320)) == 2


def test_rows_are_not_searched_on_a_copy_larger_than_the_largest_picture() -> None:
    tall = np.zeros((320, 320, 3), np.uint8)
    tall[100:200, 40:150] = 255
    tall[100:200, 150:280] = 40
    detector = Detector(sharp=9)
    detect_lines(detector, tall, 736)
    assert len(detector.shapes) == 2
    assert max(height * width for height, width in detector.shapes) <= 1.1 * 736**2


def test_lines_above_hundreds_of_specks_are_found() -> None:
    """OpenCV lists patches from the bottom, and noise in the detector's map has hundreds."""
    noisy = picture(fades=False)
    noisy[100:220:4, 20:300:4] = 255
    assert spans(detect_lines(Detector(sharp=1.5), noisy, 320)) == [(3, 29, 7), (3, 29, 27)]


def test_a_pale_line_is_found() -> None:
    pale = picture(fades=False)
    pale[TOP, 40:280] = 115
    assert spans(detect_lines(Detector(sharp=1.5), pale, 320)) == [(3, 29, 7), (3, 29, 27)]
