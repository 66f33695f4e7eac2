"""One stage over leased memes: work goes out, results come back, and are written before they are acknowledged.

What is particular to a stage is its `Job`. Who does the work, processes or a cluster, is the caller's affair.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from memeloom.catalog.documents import DocumentStore, StageCounts, Where
from memeloom.catalog.errors import LeaseLost, StoreError
from memeloom.catalog.held import HeldLeases
from memeloom.catalog.records import Meme
from memeloom.configs.progress import Progress


class Work(Protocol):
    """What is to be done for one meme; it travels to a worker."""

    @property
    def meme_id(self) -> str:
        """Of the meme."""
        ...


W = TypeVar("W", bound=Work)
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class NotDone:
    """Why work on a meme gave nothing. again: another attempt may go better."""

    reason: str
    again: bool = True


class Job(Protocol[W, R_contra]):
    """What a stage does with memes."""

    def work_for(self, meme: Meme) -> W | None:
        """What is to be done for `meme`; None if there is nothing to do any more."""
        ...

    def write(self, done: Sequence[tuple[W, R_contra]]) -> Mapping[str, str]:
        """Make durable what came of some memes; returns their outcomes by id, as the tally is to count them."""
        ...

    def set_aside(self, meme_id: str, reason: str) -> None:
        """Take note of a meme whose work failed for good."""
        ...


class Terms(Protocol):
    """Settings of a stage that leases its work."""

    @property
    def batch(self) -> int:
        """Memes leased, and facts written, at once."""
        ...

    @property
    def lease_seconds(self) -> float:
        """What a killed run was at work on comes back after this."""
        ...

    @property
    def attempts(self) -> int:
        """Work that fails this often is set aside."""
        ...


Workers: TypeAlias = Callable[[Iterator[W]], Generator[tuple[W, R | NotDone], None, None]]


class LeasedRun(Generic[W, R]):
    """One run of `stage`.

    The tally knows the outcomes of the job, ``settled`` (nothing to do any more), ``failed/REASON`` (for good),
    ``retried`` (failed, will be tried again) and ``lost`` (the lease ran out meanwhile).
    """

    def __init__(self, stage: str, job: Job[W, R], documents: DocumentStore, terms: Terms, progress: Progress) -> None:
        self._stage = stage
        self._job = job
        self._documents = documents
        self._terms = terms
        self._progress = progress
        self._unwritten: dict[str, tuple[W, R] | None] = {}
        self.tally: Counter[str] = Counter()

    @property
    def has_work(self) -> bool:
        """Whether anything is pending, or held by others."""
        counts = self._counts()
        return counts.pending + counts.leased > 0

    def work_off(self, workers: Workers[W, R]) -> int:
        """Do all that is pending. Returns how many memes others hold.

        workers: takes work and yields it with its result, in any order.

        Raises:
            StoreError: a store refused or failed; what was not acknowledged is given back, or comes back.
        """
        before = self._counts()
        if not before.pending + before.leased:
            return 0
        self._progress.start(self._stage, before.pending, "memes")
        # What failed and may be tried again is pending again: the next round takes it.
        while self._round(workers):
            pass
        self._progress.finish()
        after = self._counts()
        # The store itself gives up what every holder died of.
        if abandoned := after.reasons.get("abandoned", 0) - before.reasons.get("abandoned", 0):
            self.tally["failed/abandoned"] += abandoned
        return after.leased

    def _round(self, workers: Workers[W, R]) -> bool:
        """Do what is pending now; False if nothing was."""
        before = self.tally.total()
        with HeldLeases(self._documents, self._stage, self._terms.lease_seconds) as held:
            try:
                with closing(workers(self._leased(held))) as results:
                    for work, result in results:
                        if isinstance(result, NotDone):
                            self._fail(held, work.meme_id, result)
                        else:
                            self._unwritten[work.meme_id] = work, result
                        self._write_if(held, self._terms.batch)
            except StoreError:
                # A store that failed is not waited for a second time: what was done is given back with the rest.
                self._unwritten = {}
                raise
            finally:
                self._write_if(held, 1)
                self.tally["lost"] += held.lost
        return self.tally.total() > before

    def _leased(self, held: HeldLeases) -> Iterator[W]:
        while ids := held.take(self._terms.batch, self._terms.attempts):
            memes = {meme.id: meme for meme in self._documents.scan(Where(ids=tuple(ids)))}
            for meme_id in ids:
                # It may have been purged, or done by one who died too soon to say so.
                work = self._job.work_for(memes[meme_id]) if meme_id in memes else None
                if work is None:
                    self._unwritten[meme_id] = None
                else:
                    yield work
            self._write_if(held, self._terms.batch)

    def _fail(self, held: HeldLeases, meme_id: str, failure: NotDone) -> None:
        try:
            done = held.fail(meme_id, failure.reason, self._terms.attempts if failure.again else 1)
        except LeaseLost:
            return  # `held` counts it
        self._count(Counter([f"failed/{failure.reason}" if done else "retried"]))
        if done:
            self._job.set_aside(meme_id, failure.reason)

    def _write_if(self, held: HeldLeases, n: int) -> None:
        """Write what was done and acknowledge it, if it is as much as `n`."""
        if len(self._unwritten) < n:
            return
        # What someone else holds now is theirs to write.
        ours = {meme_id: done for meme_id, done in self._unwritten.items() if meme_id in held}
        self._unwritten = {}
        outcomes = self._job.write([done for done in ours.values() if done])
        held.acknowledge(ours)
        self._count(Counter(outcomes.get(meme_id, SETTLED) for meme_id in ours))

    def _count(self, outcomes: Counter[str]) -> None:
        self.tally += outcomes
        groups = grouped(outcomes)
        groups.pop("retried", None)
        if done := groups.total():
            groups.pop(SETTLED, None)
            self._progress.advance(done, **groups)

    def _counts(self) -> StageCounts:
        return self._documents.counts().stages.get(self._stage, StageCounts())


def grouped(tally: Mapping[str, int]) -> Counter[str]:
    """`tally` by what stands before the stroke: ``failed/timeout`` is ``failed``."""
    groups: Counter[str] = Counter()
    for outcome, n in tally.items():
        groups[outcome.partition("/")[0]] += n
    return groups


def reasons(tally: Mapping[str, int]) -> dict[str, int]:
    """What stands behind the stroke, the most frequent first."""
    ranked = sorted(tally.items(), key=lambda item: -item[1])
    return {outcome.partition("/")[2]: n for outcome, n in ranked if n and "/" in outcome}
