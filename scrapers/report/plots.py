"""The plots of a crawl: what happened in each stretch of time, from the totals in its samples."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from memeloom.scrapers.report.charts import COLOURS, Chart, Line
from memeloom.scrapers.report.series import Sample
from memeloom.scrapers.report.story import Story
from memeloom.scrapers.report.words import duration, moment, number, seconds, size, time_step

STRETCHES = 120
_MOST_HOSTS = COLOURS - 1
# Left out as it was meant to be; everything else that is counted by reason went wrong.
_LEFT_OUT = ("skipped: ", "dropped: ", "removed by a purge")


def plots(story: Story) -> list[str]:
    """One figure each: memes, errors, bytes, queue, latency, memory."""
    if len(story.samples) < 2:
        return []
    return [_memes(story), _errors(story), _bytes(story), _queue(story), _latency(story), _memory(story)]


def is_error(reason: str) -> bool:
    """Whether something that was counted by `reason` went wrong."""
    return not reason.startswith(_LEFT_OUT)


class Stretches:
    """The time of a crawl in about `most` parts of a round length; ends: of each, in seconds."""

    def __init__(self, samples: Sequence[Sample], most: int = STRETCHES) -> None:
        self._samples = samples
        self._times = [sample.seconds for sample in samples]
        whole = self._times[-1]
        self.step = time_step(whole, most)
        parts = max(1, round(whole / self.step))  # the last is longer or shorter than the others
        self.ends = [self.step * (place + 1) for place in range(parts - 1)] + [whole]

    def amounts(self, total: Callable[[Sample], float]) -> list[float]:
        """By how much a total grew in each of them."""
        reached = [self._at(end, total) for end in self.ends]
        return [max(0.0, after - before) for before, after in pairwise([0.0, *reached])]

    def rates(self, total: Callable[[Sample], float]) -> list[float]:
        """By how much a total grew a second in each of them."""
        lengths = [end - start for start, end in pairwise([0.0, *self.ends])]
        return [amount / (length or 1.0) for amount, length in zip(self.amounts(total), lengths, strict=True)]

    def _at(self, when: float, total: Callable[[Sample], float]) -> float:
        """A total at any time, as if it grew evenly between samples."""
        place = min(bisect_left(self._times, when), len(self._times) - 1)
        later = self._samples[place]
        earlier = self._samples[place - 1] if place else Sample(0.0)
        if later.seconds <= earlier.seconds:
            return total(later)
        share = min(1.0, (when - earlier.seconds) / (later.seconds - earlier.seconds))
        return total(earlier) + share * (total(later) - total(earlier))


def _memes(story: Story) -> str:
    stretches, last = Stretches(story.samples), story.last
    lines = [
        Line(name, stretches.rates(lambda sample, name=name: sample.counts.get(name, 0)), place)  # type: ignore[misc]
        for place, name in enumerate(("memes", "pages", "images"))
    ]
    said = ", ".join(f"{number(last.counts.get(line.name, 0))} {line.name}" for line in lines)
    title = "Memes, pages and images a second"
    return Chart(title, f"{said} in {duration(last.seconds)}", stretches.ends, number).lines(lines)


def _errors(story: Story) -> str:
    stretches = Stretches(story.samples)
    errors = Counter({reason: n for reason, n in story.last.reasons.items() if is_error(reason)})
    named = [reason for reason, _ in errors.most_common(COLOURS - 1 if len(errors) > COLOURS else COLOURS)]
    parts = [
        Line(f"{reason} ({errors[reason]:,})", stretches.amounts(lambda at, why=reason: at.reasons.get(why, 0)), place)  # type: ignore[misc]
        for place, reason in enumerate(named)
    ]
    if others := errors.total() - sum(errors[reason] for reason in named):
        rest = set(errors) - set(named)
        amounts = stretches.amounts(lambda at: sum(n for reason, n in at.reasons.items() if reason in rest))
        parts.append(Line(f"{len(rest)} other reasons ({others:,})", amounts, COLOURS - 1))
    title = f"Errors by reason, every {moment(stretches.step)}"
    said = "; ".join(part.name for part in parts) or "none"
    return Chart(title, said, stretches.ends, number).columns(parts)


def _bytes(story: Story) -> str:
    stretches = Stretches(story.samples)
    rates = stretches.rates(lambda sample: sample.vitals.received_bytes)
    said = f"{size(story.last.vitals.received_bytes)} in all"
    chart = Chart("Bytes received a second", said, stretches.ends, size)
    return chart.lines([Line("bytes", rates)], filled=True)


def _queue(story: Story) -> str:
    samples = _even(story.samples)
    times = [sample.seconds for sample in samples]
    sources = sorted({source for sample in samples for source in sample.vitals.queue})
    lines = [
        Line(source, [sample.vitals.queue.get(source) for sample in samples], place % COLOURS)
        for place, source in enumerate(sources)
    ]
    said = f"{number(story.peaks['queue'])} at most, {number(sum(story.last.vitals.queue.values()))} at the end"
    return Chart("Queue: requests that are not finished", said, times, number).lines(lines, filled=len(lines) == 1)


def _latency(story: Story) -> str:
    samples = _even(story.samples)
    times = [sample.seconds for sample in samples]
    latencies = [{host.name: host.latency_seconds for host in sample.vitals.hosts} for sample in samples]
    busiest = sorted(story.last.vitals.hosts, key=lambda host: -host.answers)
    lines = [
        Line(host.name, [at.get(host.name) for at in latencies], place)
        for place, host in enumerate([host for host in busiest if host.answers][:_MOST_HOSTS])
    ]
    said = ", ".join(f"{host.name} {seconds(host.latency_seconds or 0)}" for host in busiest[: len(lines)])
    return Chart("Latency of the busiest hosts", said, times, seconds).lines(lines)


def _memory(story: Story) -> str:
    samples = _even(story.samples)
    times = [sample.seconds for sample in samples]
    line = Line("memory", [sample.vitals.rss_bytes or None for sample in samples])
    chart = Chart("Memory of the crawling process", f"{size(story.peaks['rss_bytes'])} at most", times, size)
    return chart.lines([line], filled=True)


def _even(samples: Sequence[Sample]) -> list[Sample]:
    """Those that are about evenly spaced: a series is denser while its crawl is young."""
    space = samples[-1].seconds / (2 * STRETCHES)
    chosen: list[Sample] = []
    for sample in samples:
        if not chosen or sample is samples[-1] or sample.seconds >= chosen[-1].seconds + space:
            chosen.append(sample)
    return chosen
