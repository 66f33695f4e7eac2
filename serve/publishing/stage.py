"""`memeloom publish run` and `sync`: the accounts one after the other, once or until stopped."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.feed import LIKE
from memeloom.catalog.records import author_hash
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.errors import ConfigError
from memeloom.configs.progress import Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Account, Config
from memeloom.serve.feed.safety import Safety
from memeloom.serve.publishing.accounts import account_key, opened
from memeloom.serve.publishing.contract import (
    AccountRefused,
    Limited,
    Network,
    PublishError,
    Reaction,
    Rejected,
    Unavailable,
)
from memeloom.serve.publishing.pictures import MemePictures
from memeloom.serve.publishing.publisher import Publisher

log = logging.getLogger(__name__)

# A sync waits for the reset of a limit, which networks have every five minutes.
_LONGEST_WAIT: Final = 900.0


class Stop(Protocol):
    """Tells that the work should end: a `threading.Event`."""

    def is_set(self) -> bool:
        """Return True once it should."""

    def wait(self, timeout: float) -> bool:
        """Wait until then, for seconds at most."""


class AccountsRefused(PublishError):
    """Some accounts could not be used; `summary` says what the others did."""

    def __init__(self, message: str, summary: Summary) -> None:
        super().__init__(message)
        self.summary = summary


def publish(
    config: Config, accounts: Sequence[Account], progress: Progress, stop: Stop, every: float | None
) -> Summary:
    """Post what is due on these accounts, once, or every `every` seconds until `stop`.

    Raises:
        AccountsRefused: at the end, if an account cannot be used.
    """
    with publishers(config, accounts, progress, stop.is_set) as working:
        counts: Counter[str] = Counter()
        refused: list[str] = []
        progress.start("publish", None, "post")
        while True:
            for publisher in list(working):
                try:
                    publisher.post_due()
                except AccountRefused as error:
                    refused.append(f"{publisher.account.name}: {error}")
                    log.warning("%s: cannot be used: %s", publisher.key, error)
                    working.remove(publisher)
                    counts += publisher.counts
            if every is None or not working or stop.is_set() or stop.wait(every):
                break
        progress.finish()
        for publisher in working:
            counts += publisher.counts
        with closing(open_documents(config.store)) as documents:
            states = Counter(post.state for each in accounts for post in documents.posts(account=account_key(each)))
    summary = Summary(
        "publish", {**counts, "approved, not due yet": states["approved"], "waiting for review": states["queued"]}
    )
    if refused:
        raise AccountsRefused("; ".join(refused), summary)
    return summary


@contextmanager
def publishers(
    config: Config, accounts: Sequence[Account], progress: Progress, stopped: Callable[[], bool] = bool
) -> Iterator[list[Publisher]]:
    """Open the catalog and these accounts."""
    with ExitStack() as stack:
        documents = stack.enter_context(closing(open_documents(config.store)))
        pictures = MemePictures(config, documents, stack.enter_context(closing(open_blobs(config.store))))
        made, blocked = [], Safety(config).blocked
        for account in accounts:
            network = stack.enter_context(closing(opened(account, config.publish.timeout_seconds)))
            made.append(Publisher(documents, pictures, account, network, config.publish, blocked, stopped, progress))
        yield made


def sync(config: Config, accounts: Sequence[Account], progress: Progress) -> Summary:
    """Fetch reactions to the posts of the last `publish.sync_days` days: who likes, reposts or answers a post likes it.

    People are kept as salted hashes of their names, as authors are.

    Raises:
        ConfigError: `crawl.author_salt` is missing.
        PublishError: an account cannot be used, or its network does not answer.
    """
    if config.crawl.author_salt is None:
        raise ConfigError("crawl.author_salt: needed, as people are kept as salted hashes of their names")
    salt = config.crawl.author_salt.get_secret_value()
    counts: Counter[str] = Counter(posts=0)
    progress.start("publish-sync", None, "post")
    with closing(open_documents(config.store)) as documents:
        for account in accounts:
            with closing(opened(account, config.publish.timeout_seconds)) as network:
                counts += _Sync(documents, account, network, salt).run(config.publish.sync_days, progress)
    progress.finish()
    return Summary("publish-sync", dict(counts))


@dataclass(frozen=True)
class _Sync:
    documents: DocumentStore
    account: Account
    network: Network
    salt: str

    def run(self, days: int, progress: Progress) -> Counter[str]:
        counts: Counter[str] = Counter()
        now = datetime.now(UTC)
        for post in self.documents.posts(account=account_key(self.account), state="posted"):
            if post.post is None or post.sent_at is None or post.sent_at < now - timedelta(days=days):
                continue
            try:
                found = self._ask(post.post)
            except (Rejected, Unavailable) as error:
                log.warning("%s: %s: no reactions: %s", post.account, post.url, error)
                counts["posts that are gone" if isinstance(error, Rejected) else "posts to ask for again"] += 1
                continue
            counts["posts"] += 1
            progress.advance()
            for reaction in found:
                person = f"{self.account.network}:{author_hash(reaction.person, self.salt)}"
                # A repeated reaction would look like a new one, as not every network says when it was.
                if self.documents.reactions(person, [post.meme]).get(post.meme) == LIKE:
                    counts["known reactions"] += 1
                elif self.documents.react(post.meme, person, LIKE, reaction.at or now) is not None:
                    counts[f"new {'replies' if reaction.kind == 'reply' else f'{reaction.kind}s'}"] += 1
        return counts

    def _ask(self, post: str) -> list[Reaction]:
        """Return the reactions to a post, after a limit's reset if that is soon. Raises PublishError."""
        while True:
            try:
                return self.network.reactions(post)
            except Limited as error:
                seconds = (error.until - datetime.now(UTC)).total_seconds()
                if seconds > _LONGEST_WAIT:
                    raise
                log.info("%s: pauses for %.0f s: %s", self.account.name, seconds, error)
                time.sleep(max(0.0, seconds))
