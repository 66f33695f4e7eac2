"""Numbers, durations, sizes and foreign texts as people read them."""

import math
from datetime import UTC, datetime

from memeloom.report.format import clock, compact, day, duration, moment, number, one_line, percent, size


def test_numbers_have_three_digits_or_thousands_separators() -> None:
    values = (0, 1234567, 12.5, 0.03125, 999.7, -4, math.nan, math.inf)
    assert [number(n) for n in values] == ["0", "1,234,567", "12.5", "0.0312", "1,000", "-4", "–", "–"]
    assert [compact(n) for n in (0, 999, 999.9, 1234567, 5e9)] == ["0", "999", "1k", "1.23M", "5G"]
    assert [percent(n) for n in (0, 0.125, 0.0004, 1)] == ["0.0 %", "12.5 %", "0.040 %", "100.0 %"]


def test_sizes_have_a_unit() -> None:
    assert [size(n) for n in (0, 999, 1000, 999_900, 1.25e9, 1e30)] == [
        "0 B", "999 B", "1 kB", "1 MB", "1.2 GB", "1,000,000,000,000,000 PB"
    ]  # fmt: skip


def test_durations_never_show_sixty_of_a_unit() -> None:
    seconds = (0, 0.0004, 0.12, 0.9999, 1.25, 9.96, 42, 59.6, 245, 3599.7, 101_000)
    assert [duration(s) for s in seconds] == [
        "0 s", "0.4 ms", "120 ms", "1.0 s", "1.2 s", "10 s", "42 s", "1 min 00 s", "4 min 05 s", "1 h 00 min",
        "28 h 03 min",
    ]  # fmt: skip
    assert [clock(s) for s in (0, 0.5, 30, 90, 3600, 9000, 86400)] == [
        "0", "500 ms", "30 s", "1:30 min", "1 h", "2:30 h", "1 d"
    ]  # fmt: skip


def test_dates_are_written_out() -> None:
    when = datetime(2026, 11, 3, 9, 5, tzinfo=UTC)
    assert day(when) == "3 November 2026"
    assert moment(when) == "3 November 2026, 09:05:00 UTC"


def test_foreign_text_stays_on_one_short_line_without_control_characters() -> None:
    assert one_line("a\n b\x1b[31m\u202ec") == "a b\\u001b[31m\\u202ec"
    assert one_line(" a\t\nb \x00 \ud800") == "a b \\u0000 \\ud800"
    assert one_line("a" * 5, 5) == "aaaaa"
    assert one_line("a" * 6, 5) == "aaaa…"
    assert one_line("word " * 100_000, 10) == "word word…"
    assert len(one_line("\u202e" * 100_000, 50)) == 50
