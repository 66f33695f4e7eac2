"""Accuracy and speed of OCR on memes: `python -m bench.ocr --data DATA`.

DATA holds real memes with transcripts, templates and captions. Real memes and templates are split in half by hash,
one half for tuning and one for reporting. Each reader runs in its own process on one processor; its time is that from
picture bytes to caption, including its child processes.

Parts: `english` and `mixed` (real memes, the latter in Hindi and English in Latin letters; against the original
transcripts, and with a star those corrected by `ocr_corrections.yaml` and `ocr_corrections_mixed.yaml`), `drawn`
(captions on templates), `hin` and `rus` (captions in Devanagari and Cyrillic on templates; of our engines only
tesseract reads them).
"""

import argparse
import multiprocessing
import os
import resource
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench import ocr_cases
from bench.crawl_worker import memory_mb
from bench.ocr_cases import Case
from bench.ocr_readers import open_reader, readers
from bench.ocr_score import score
from bench.ocr_scripts import script_of
from memeloom.catalog.images import decode_image
from memeloom.ocr.words import WordModel

_PARTS = {
    "english": "real English memes, reporting half",
    "drawn": "drawn memes, reporting templates",
    "mixed": "real memes in Hindi and English, reporting half",
    "hin": "drawn memes in Devanagari, reporting templates",
    "rus": "drawn memes in Cyrillic, reporting templates",
}
_GOALS = {
    "english": "recall >= 0.98, precision >= 0.95, >= 25 images/cpu-s, <= 300 MB",
    "drawn": "recall >= 0.98, CER <= 0.04",
    "mixed": "recall >= 0.90, precision >= 0.83",
}
_DRAWN, _DRAWN_IN_SCRIPT = 120, 60


def main() -> None:
    """Measure each part and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds real_memes/ and templates/")
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--limit", type=int, help="pictures of each kind: quick, and proves little")
    options = parser.parse_args()
    console = Console(width=150)
    for part in options.only:
        console.print(f"{part} … (load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors)")
        _measure_part(part, options.data, options.limit, console)


def _measure_part(part: str, data: Path, limit: int | None, console: Console) -> None:
    match part:
        case "english":
            cases = ocr_cases.real(data)
        case "drawn":
            cases = ocr_cases.drawn(data, min(limit or _DRAWN, _DRAWN))
        case "mixed":
            cases = ocr_cases.mixed(data)
        case _:
            cases = ocr_cases.drawn(data, _DRAWN_IN_SCRIPT, script_of(part))
    cases = cases[:limit]
    language = part if part in ("hin", "rus") else "eng"
    words = WordModel.of(ocr_cases.catalog_captions(data, cases)) if language == "eng" else None
    corrected = ["recall", "precision", "CER"] if part in ("english", "mixed") else []
    table = Table(title=f"{len(cases)} {_PARTS[part]}", caption=_GOALS.get(part), box=SIMPLE)
    table.add_column("reader")
    for column in ("recall", "precision", "CER", *(f"{name}*" for name in corrected), "images/cpu-s", "MB"):
        table.add_column(column, justify="right")
    for name in readers(language):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            texts, seconds, peak_mb = pool.submit(_measure, name, language, cases, words).result()
        figures = []
        for against in (False, True) if corrected else (True,):
            found = score(texts, cases, corrected=against)
            figures += [f"{figure:.3f}" for figure in (found.recall, found.precision, found.error_rate)]
        table.add_row(name, *figures, f"{len(cases) / seconds:.1f}", f"{peak_mb:.0f}")
        console.print("  ", name, *figures, f"{len(cases) / seconds:.1f}/cpu-s")
    console.print(table)


def _measure(
    name: str, language: str, cases: Sequence[Case], words: WordModel | None
) -> tuple[list[str], float, float]:
    """Return the texts, processor seconds and peak memory in MB of a reader on one processor."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    read = open_reader(name, language, words)
    read(decode_image(cases[0].data))
    before = _cpu_seconds()
    texts = [read(decode_image(case.data)) for case in cases]
    return texts, _cpu_seconds() - before, memory_mb("VmHWM")


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
