"""Accuracy and speed of OCR on memes: `python -m bench.ocr --data DATA`.

DATA holds real memes with transcripts, templates and captions. English memes and templates are split in half by hash,
one half for tuning and one for reporting. Each reader runs in its own process on one processor; its time is that from
picture bytes to caption, including its child processes.

Parts: `english` (real memes, against the original transcripts, and with a star those corrected by
`ocr_corrections.yaml`), `drawn` (captions on templates), `mixed` (Hindi and English in Latin letters), `devanagari`
(drawn; needs Tesseract's language pack `hin`) and `processes` (two against one).
"""

import argparse
import multiprocessing
import os
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench import ocr_cases
from bench.crawl_worker import memory_mb
from bench.ocr_cases import Case
from bench.ocr_readers import OURS, open_reader, readers
from bench.ocr_score import score
from memeloom.catalog.images import decode_image
from memeloom.ocr.engines.contract import EngineMissing
from memeloom.ocr.engines.tesseract_page import check_program
from memeloom.ocr.words import WordModel

_PARTS = ("english", "drawn", "mixed", "devanagari", "processes")
_DRAWN, _DEVANAGARI, _SHARED = 400, 60, 120
_GOALS = {
    "english": "recall >= 0.98, precision >= 0.95, >= 25 images/cpu-s, <= 300 MB",
    "drawn": "recall >= 0.98, CER <= 0.04",
    "processes": ">= 1.8 x one",
}
_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def main() -> None:
    """Measure each part and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds real_memes/ and templates/")
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--readers", nargs="+", help="only those whose name contains one of these")
    parser.add_argument("--limit", type=int, help="pictures of each kind: quick, and proves little")
    options = parser.parse_args()
    console = Console(width=150)
    for part in options.only:
        console.print(f"{part} … (load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors)")
        if part == "processes":
            _processes(options, console)
        else:
            _part(part, options, console)


def _part(part: str, options: argparse.Namespace, console: Console) -> None:
    try:
        cases, language, what = _cases(part, options.data)
        if part == "devanagari":
            check_program("hin")
    except (EngineMissing, ValueError) as error:
        console.print(f"{part} is left out: {error}")
        return
    cases = cases[: options.limit]
    words = b"" if language == "hin" else WordModel.of(ocr_cases.catalog_captions(options.data, cases)).to_bytes()
    names = [name for name in readers(language) if not options.readers or any(word in name for word in options.readers)]
    corrected = ["recall", "precision", "CER"] if part == "english" else []
    table = Table(title=f"{len(cases)} {what}", caption=_GOALS.get(part), box=SIMPLE)
    table.add_column("reader")
    for column in ("recall", "precision", "CER", *(f"{name}*" for name in corrected), "images/cpu-s", "MB"):
        table.add_column(column, justify="right")
    for name in names:
        texts, seconds, peak_mb = _alone(name, cases, words, language)
        figures = []
        for against in (False, True) if corrected else (True,):
            found = score(texts, cases, corrected=against)
            figures += [f"{figure:.3f}" for figure in (found.recall, found.precision, found.error_rate)]
        table.add_row(name, *figures, f"{len(cases) / seconds:.1f}", f"{peak_mb:.0f}")
        console.print("  ", name, *figures, f"{len(cases) / seconds:.1f}/cpu-s")
    console.print(table)


def _cases(part: str, data: Path) -> tuple[list[Case], str, str]:
    match part:
        case "english":
            return ocr_cases.real(data, "report"), "eng", "real English memes, reporting half"
        case "drawn":
            return ocr_cases.drawn(data, "report", _DRAWN), "eng", "drawn memes, reporting templates"
        case "mixed":
            return ocr_cases.mixed(data), "eng", "real memes in Hindi and English (some masked with #)"
        case _:
            return ocr_cases.drawn(data, "report", _DEVANAGARI, "devanagari"), "hin", "drawn memes in Devanagari"


def _processes(options: argparse.Namespace, console: Console) -> None:
    """Compare one process with two; engines are loaded before the clock starts."""
    cases = ocr_cases.drawn(options.data, "report", min(options.limit or _SHARED, _SHARED))
    rates = []
    for workers in (1, 2):
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(workers + 1)
        processes = [
            context.Process(target=_share, args=(cases[number::workers], barrier, number)) for number in range(workers)
        ]
        for process in processes:
            process.start()
        barrier.wait(300)
        began = time.monotonic()
        barrier.wait(3600)
        rates.append(len(cases) / (time.monotonic() - began))
        for process in processes:
            process.join(60)
    console.print(
        f"{len(cases)} drawn memes: one process {rates[0]:.1f} images/s, two {rates[1]:.1f}: "
        f"{rates[1] / rates[0]:.2f} x (goal {_GOALS['processes']})"
    )


def _share(cases: Sequence[Case], barrier: "multiprocessing.synchronize.Barrier", number: int) -> None:
    _pin(number)
    read = open_reader(OURS, b"")
    read(decode_image(cases[0].data))
    barrier.wait(300)
    for case in cases:
        read(decode_image(case.data))
    barrier.wait(3600)


def _alone(name: str, cases: Sequence[Case], words: bytes, language: str) -> tuple[list[str], float, float]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, name, cases, words, language).result()


def _measure(name: str, cases: Sequence[Case], words: bytes, language: str) -> tuple[list[str], float, float]:
    _pin(0)
    read = open_reader(name, words, language)
    read(decode_image(cases[0].data))
    before = _cpu_seconds()
    texts = [read(decode_image(case.data)) for case in cases]
    seconds = _cpu_seconds() - before
    return texts, seconds, memory_mb("VmHWM")


def _pin(number: int) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[number % len(allowed)]})


def _cpu_seconds() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, _WHO))


if __name__ == "__main__":
    main()
