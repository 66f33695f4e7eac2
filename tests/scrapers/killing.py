"""Crawls under fire: `memeloom crawl` processes that are killed at random moments and started again, and the reckoning.

The site is the miniature internet, which knows what a flawless crawl would have found.
"""

import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from memeloom.catalog.blobs import blob_key
from memeloom.catalog.errors import BlobMissing, StoreCorrupt
from memeloom.catalog.frames import receive
from memeloom.catalog.records import Meme
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.load import load_config
from memeloom.configs.schema import Config, Store
from memeloom.demo.faults import Rule
from memeloom.demo.internet import Internet
from memeloom.demo.truth import ServedMeme
from memeloom.scrapers.frontier.contract import frontier_of

_ROOT = Path(__file__).parents[2]
_POLL_SECONDS = 0.1
# What passes, so that retries and waits are under way as well when the blow falls.
MILD_FAULTS = (
    Rule("rate_limit", share=0.002, path=r"/(?!robots)", settings={"seconds": 1}),
    Rule("server_error", share=0.03, path=r"/(?!robots)"),
    Rule("reset", share=0.02, path=r"/(?!robots)", settings={"part": 0.5}),
    Rule("reset", share=0.02, path=r"/(?!robots)"),
)


class Crawler:
    """One `memeloom crawl`, in a process group of its own, that can be started again and again.

    settings: `--set` overrides. arguments: further ones of the command. program: what is run instead of memeloom.
    """

    def __init__(
        self, settings: Sequence[str], folder: Path, *, arguments: Sequence[str] = (), program: Sequence[str] = ()
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        overrides = [word for setting in (*settings, f"runs={folder}/runs") for word in ("--set", setting)]
        self._command = [sys.executable, *(program or ("-m", "memeloom.cli.main")), *overrides, "crawl", *arguments]
        self._output = folder / "output.txt"
        self._groups: list[int] = []
        self.starts = 0
        self.start()

    def start(self) -> None:
        """Start it (again)."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, env={**os.environ, "PYTHONPATH": str(_ROOT)},
            )  # fmt: skip
        self._groups.append(self._process.pid)
        self.starts += 1

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    @property
    def words(self) -> str:
        """What it printed last."""
        return self._output.read_text(errors="replace")[-2000:]

    def child(self) -> int | None:
        """The process that does the work, once there is one."""
        with suppress(OSError):
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            for child in children:
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
        return None

    def signal(self, number: int) -> None:
        """Send a signal to both processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self, whom: str = "both") -> bool:
        """kill -9 `both` processes, the `child`, or the `parent`. False if it had ended before."""
        if self.code is not None:
            return False
        child = self.child()
        if whom == "child" and child is not None:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            self._process.wait(60)  # the parent tells and ends
        elif whom == "parent":
            self._process.kill()
            self._process.wait()
        else:
            self.signal(signal.SIGKILL)
            self._process.wait()
        return True

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended. Raises subprocess.TimeoutExpired."""
        return self._process.wait(seconds)

    def is_gone(self) -> bool:
        """Whether nothing is left of all that was ever started."""
        return all(_group_is_gone(group) for group in self._groups)

    def end(self) -> None:
        """Leave nobody behind."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._process.wait()


@dataclass
class Attack:
    """What was done to a crawl.

    kills: by moment and victim. outages: servers that were away for a while. gave_up: what crawls said that ended with
    exit code 1 by themselves.
    """

    kills: Counter[str] = field(default_factory=Counter)
    outages: int = 0
    gave_up: list[str] = field(default_factory=list)
    starts: int = 0
    seconds: float = 0.0


def crawl_under_fire(
    crawlers: Sequence[Crawler],
    internet: Internet,
    *,
    kills: int,
    chance: random.Random,
    outages: Sequence[Callable[[], None]] = (),
    seconds: float,
) -> Attack:
    """Let `crawlers` crawl to the end, whatever happens to them.

    Blows fall, by `chance`, when shares of all pictures have been served, shortly after a start, or while a crawl
    closes; `outages` are spread evenly among them.

    Raises:
        AssertionError: it did not come to an end within `seconds`.
    """
    attack, began = Attack(), time.monotonic()
    pictures = sum(1 + len(meme.more_images) for meme in internet.served() if meme.source != "images")
    end = began + seconds
    due = {round((place + 1) * kills / (len(outages) + 1)): outage for place, outage in enumerate(outages)}
    while attack.kills.total() < kills:
        number = attack.kills.total()
        moment = chance.choices(("on the way", "at the start", "while closing"), (6, 2, 2))[0]
        victim = chance.choice(crawlers)
        if moment != "at the start":
            share = (number + chance.random()) / (kills + 1)
            _wait_for(lambda share=share: _served(internet) >= share * pictures, end, crawlers, attack)  # type: ignore[misc]
        time.sleep(chance.uniform(0, 2.0 if moment == "at the start" else 0.3))
        if moment == "while closing":
            victim.signal(signal.SIGINT)
            time.sleep(chance.uniform(0, 1.0))
        whom = chance.choices(("both", "child", "parent"), (6, 3, 1))[0]
        if victim.kill(whom):
            attack.kills[f"{moment}, {whom}"] += 1
            if outage := due.pop(attack.kills.total(), None):
                outage()
                attack.outages += 1
        victim.start()
    _wait_for(lambda: all(crawler.code == 0 for crawler in crawlers), end, crawlers, attack)
    _wait_for(lambda: all(crawler.is_gone() for crawler in crawlers), end, crawlers, attack)
    attack.starts = sum(crawler.starts for crawler in crawlers)
    attack.seconds = time.monotonic() - began
    return attack


def whole(*sources: str) -> list[str]:
    """Overrides for a crawl of all that `sources` serve: every template, page and picture."""
    return [
        f"crawl.sources=[{','.join(sources)}]", "crawl.imgflip.templates=100000",
        "crawl.imgflip.pages_per_template=100000", "crawl.imgflip.meme_pages=all", "crawl.concurrency_per_host=8",
        "crawl.retries=6",
    ]  # fmt: skip


def stores(store: Store) -> list[str]:
    """Overrides for a crawl into `store`."""
    found = [f"store.documents={store.documents}", f"store.blobs={store.blobs}"]
    if store.s3.endpoint is not None and store.s3.access_key and store.s3.secret_key:
        found += [
            f"store.s3.endpoint={store.s3.endpoint}", f"store.s3.region={store.s3.region}",
            f"store.s3.access_key={store.s3.access_key.get_secret_value()}",
            f"store.s3.secret_key={store.s3.secret_key.get_secret_value()}",
        ]  # fmt: skip
    return found


def settings_of(config_overrides: Sequence[str]) -> Config:
    """The settings that a `Crawler` with these overrides has."""
    return load_config(overrides=list(config_overrides), environment={})


@dataclass(frozen=True)
class Reckoning:
    """What a crawl has come to, against what was served.

    wrong: memes by the fact that is not as served. lost, doubled, foreign: ids. bad_blobs: keys whose bytes are
    missing or others. stray_blobs: keys that no record names. unfinished: requests by source and state.
    refetched: pictures that were asked for again after they had gone out whole; fetched: all that went out whole.
    """

    served: int
    stored: int
    lost: set[str]
    doubled: set[str]
    foreign: set[str]
    wrong: Counter[str]
    bad_blobs: set[str]
    stray_blobs: set[str]
    unfinished: dict[str, int]
    fetched: int
    refetched: int

    def faults(self) -> dict[str, object]:
        """What is not as it should be; nothing, of a crawl without fault."""
        found = {
            "lost": self.lost, "doubled": self.doubled, "foreign": self.foreign, "wrong": dict(self.wrong),
            "bad blobs": self.bad_blobs, "stray blobs": self.stray_blobs, "unfinished requests": self.unfinished,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value}


def reckon(config: Config, internet: Internet) -> Reckoning:
    """Compare the catalog, its blobs and the frontier with what was served; ends the faults of `internet`."""
    internet.set_faults({})
    times = [picture["times"] for picture in internet.log()["pictures"].values()]
    sources = config.crawl.sources
    served = {meme.id: meme for meme in internet.served(hashes=True) if meme.source in sources}
    truth = served | {further.id: further for meme in served.values() for further in _further(meme)}
    wrong: Counter[str] = Counter()
    with closing(open_documents(config.store)) as documents, closing(open_blobs(config.store)) as blobs:
        memes = list(documents.scan())
        stored = {meme.id: meme for meme in memes}
        for name in stored.keys() & truth.keys():
            wrong.update(_differences(stored[name], truth[name]))
        templates = list(documents.templates())
        images = [meme.image for meme in memes] + [template.image for template in templates]
        named = {image.key for image in images if image is not None}
        wrong["templates without picture"] += sum(template.image is None for template in templates)
        kept = set(blobs.keys())
        bad = {key for key in kept | named if not _is_sound(blobs.get, key)}
    addresses = Counter(meme.image_url for meme in memes if meme.image_url)
    return Reckoning(
        served=len(truth),
        stored=len(memes),
        lost=truth.keys() - stored.keys(),
        doubled={str(address) for address, n in addresses.items() if n > 1}
        | {name for name, n in Counter(meme.id for meme in memes).items() if n > 1},
        foreign=stored.keys() - truth.keys(),
        wrong=+wrong,
        bad_blobs=bad,
        stray_blobs=kept - named,
        unfinished=dict(_unfinished(config)),
        fetched=sum(times),
        refetched=sum(times) - len(times),
    )


def _further(meme: ServedMeme) -> Iterator[ServedMeme]:
    """The further pictures of a meme's page, as memes of their own; their captions stand in them only."""
    for number, (address, key) in enumerate(zip(meme.more_images, meme.more_sha256, strict=True), start=2):
        yield ServedMeme(
            id=f"{meme.id}-{number}", source=meme.source, template_id=meme.template_id,
            template_slug=meme.template_slug, boxes=(), title=meme.title, page_url=meme.page_url, image_url=address,
            score=meme.score, views=meme.views, over_18=meme.over_18, sha256=key,
        )  # fmt: skip


def _differences(meme: Meme, truth: ServedMeme) -> Iterator[str]:
    """The facts of `meme` that are not as served."""
    pairs: dict[str, tuple[object, object]] = {
        "image_url": (meme.image_url, truth.image_url),
        "title": (meme.title, truth.title),
        "over_18": (bool(meme.over_18), bool(truth.over_18)),
        "score": (meme.score, truth.score),
        "bytes": (meme.image and meme.image.key, _picture_key(truth)),
        "page_url": (meme.page_url, truth.page_url),
    }
    if meme.source == "imgflip":
        pairs |= {
            "boxes": (meme.boxes, truth.boxes),
            "views": (meme.views, truth.views),
            "template": (meme.template and meme.template.id, truth.template_id),
        }
    yield from (name for name, (ours, theirs) in pairs.items() if ours != theirs)


def _picture_key(truth: ServedMeme) -> str | None:
    """Under which key the picture must lie: that of its bytes, or, of one that moves, of its first frame."""
    if truth.kind != "animated":
        return truth.sha256
    with urllib.request.urlopen(truth.image_url, timeout=60) as answer:
        data = answer.read()
    assert blob_key(data) == truth.sha256
    return blob_key(receive(data, max_bytes=10**8, max_pixels=10**8).data)


def _is_sound(get: Callable[[str], bytes], key: str) -> bool:
    try:
        return blob_key(get(key)) == key
    except (BlobMissing, StoreCorrupt):
        return False


def _unfinished(config: Config) -> Iterator[tuple[str, int]]:
    """What is left in the frontier, by source and state."""
    for source in config.crawl.sources:
        with closing(frontier_of(config, source)) as frontier:
            tallies = frontier.tallies()
        for state in ("pending", "leased", "dead"):
            if count := getattr(tallies, state):
                yield f"{source}, {state}", count


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Return when `condition` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def _served(internet: Internet) -> int:
    return len(internet.log()["pictures"])


def _wait_for(condition: Callable[[], bool], end: float, crawlers: Sequence[Crawler], attack: Attack) -> None:
    """Return when `condition` holds; crawls that a server's outage has ended are started again meanwhile."""
    while not condition():
        for crawler in crawlers:
            if crawler.code not in (None, 0):
                attack.gave_up.append(crawler.words.strip().rpartition("memeloom: ")[2])
                crawler.start()
        words = "\n".join(crawler.words for crawler in crawlers)
        assert time.monotonic() < end, f"the crawl did not come to its end:\n{words}"
        time.sleep(_POLL_SECONDS)


def _group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
