"""Parsers of foreign bytes return, or raise their own one-line error: quickly, in little memory, whatever the bytes.

`make fuzz` does the same for longer, with other examples each time, and keeps what fails in `build/fuzz`.
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from memeloom.configs.locks import exclusive
from tests.fuzz.cage import Cage
from tests.fuzz.mutations import mutated
from tests.fuzz.parsers import PARSERS, Parser
from tests.fuzz.samples import prepare

# Seconds of each parser; 0 is the few examples of the suite, always the same.
SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
MOST_SECONDS = 2.0
FAILED = Path(__file__).parents[2] / "build" / "fuzz"
ROUND = 200
OPTIONS = settings(
    deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink]
)


@pytest.fixture(scope="session")
def cage(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cage]:
    """A process with samples of its own; they are written once for all workers of the run."""
    prepared = run_folder / "fuzz"
    with exclusive(prepared, "another worker prepares", wait_seconds=200):
        if not prepared.exists():
            making = run_folder / "fuzz-making"
            making.mkdir()
            prepare(making)
            making.rename(prepared)
    with Cage(Path(shutil.copytree(prepared, tmp_path_factory.mktemp("fuzz") / "folder"))) as cage:
        yield cage


@pytest.mark.timeout(300 + 10 * SECONDS)
@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_it_keeps_its_promise_whatever_the_bytes(parser: Parser, cage: Cage) -> None:
    found = parser.samples(cage.folder)
    for sample in found:
        assert cage.call(parser.name, sample).fault == "", "a valid sample is refused"

    def attempt(data: bytes) -> None:
        outcome = cage.call(parser.name, data)
        slow = f"{outcome.seconds:.1f} s" if outcome.seconds > MOST_SECONDS else ""
        large = f"{outcome.peak_mb:.0f} MB" if outcome.peak_mb > parser.megabytes else ""
        if fault := outcome.fault or slow or large:
            pytest.fail(f"{fault}\nthe input: {_kept(parser, data)}", pytrace=False)

    end, number = time.monotonic() + SECONDS, 0
    while number == 0 or time.monotonic() < end:
        options = settings(OPTIONS, max_examples=ROUND if SECONDS else parser.quick)
        start = time.time_ns() if SECONDS else number
        options(seed(start)(given(mutated(found))(attempt)))()
        number += 1


def _kept(parser: Parser, data: bytes) -> str:
    """Return the input; it is also written into `FAILED` in a long run."""
    if SECONDS:
        FAILED.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "-", parser.name)
        (FAILED / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
    return f"{data[:500]!r} ({len(data)} bytes)"
