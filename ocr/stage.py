"""The stage that reads memes whose caption is only in the picture."""

import math
import time
from collections import Counter
from functools import partial

from catalog.documents import StageCounts, Where, open_documents
from configs.progress import Progress
from configs.runs import Summary
from configs.schema import Config
from engine.pool import run_partitions
from ocr.engine import check_engine
from ocr.worker import STAGE, read_batch


def read_memes(config: Config, progress: Progress) -> Summary:
    """Read every meme that has a picture and no caption, and that was not read before.

    Worker processes lease batches, write what they read to the memes and acknowledge. Killed at any
    moment nothing acknowledged is lost; what a dead worker held comes back after `ocr.lease_seconds`.

    The summary's ``held`` counts memes that a worker still holds that is not of this run.

    Raises:
        EngineMissing: the OCR engine cannot work on this machine.
        StoreError: a store refused or failed.
    """
    start = time.monotonic()
    check_engine(config.ocr)
    documents = open_documents(config.store)
    tally: Counter[str] = Counter()
    try:
        documents.enqueue(STAGE, Where(image=True, caption=False, read=False))
        work = documents.counts().stages.get(STAGE, StageCounts())
        progress.start("ocr", work.pending, "memes")
        # What failed and may be tried again is pending again: the next round takes it.
        while work.pending + work.leased:
            done = _read_round(config, progress, work.pending + work.leased)
            tally += done
            work = documents.counts().stages.get(STAGE, StageCounts())
            if not done:
                break
        progress.finish()
    finally:
        documents.close()
    return _summary(tally, held=work.leased, seconds=time.monotonic() - start)


def _read_round(config: Config, progress: Progress, memes: int) -> Counter[str]:
    tally: Counter[str] = Counter()
    batches = range(math.ceil(memes / config.ocr.batch))
    for done in run_partitions(partial(read_batch, config), batches, config.engine):
        tally += done
        groups = _groups(done)
        progress.advance(groups.total() + done["settled"], **groups)
    return tally


def _groups(tally: Counter[str]) -> Counter[str]:
    """The memes that are done with, as ``kept``, ``dropped`` and ``failed``."""
    groups: Counter[str] = Counter()
    for outcome, n in tally.items():
        group = outcome.partition("/")[0]
        if group in ("kept", "dropped", "failed"):
            groups[group] += n
    return groups


def _summary(tally: Counter[str], held: int, seconds: float) -> Summary:
    groups = _groups(tally)
    counts = {"memes": groups.total(), **{name: groups[name] for name in ("kept", "dropped", "failed")}}
    rest = {"settled": tally["settled"], "lost": tally["lost"], "held": held}
    return Summary(
        stage=STAGE,
        counts={**counts, **{name: n for name, n in rest.items() if n}},
        reasons={outcome.partition("/")[2]: n for outcome, n in tally.most_common() if "/" in outcome},
        seconds={"total": seconds},
    )
