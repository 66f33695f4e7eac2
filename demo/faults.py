"""What goes wrong on the real web, as switchable faults. Seed, address and count decide which request is hit."""

import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from aiohttp import web

from memeloom.configs.errors import ConfigError
from memeloom.demo import faults_content as content
from memeloom.demo import faults_wire as wire
from memeloom.demo.world import HOSTS, IMAGE_HOSTS, Handler, Host

Apply: TypeAlias = Callable[[web.Request, Handler, content.Settings], Awaitable[web.StreamResponse]]
Unit: TypeAlias = Literal["address", "host", "token"]

ALL_HOSTS: frozenset[Host] = frozenset(HOSTS) - {"inside", "control"}
PAGE_HOSTS: frozenset[Host] = frozenset({"imgflip", "bing", "google"})
LISTING_HOSTS: frozenset[Host] = PAGE_HOSTS | {"reddit_api"}

_BURST = 5


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to a request, and on which hosts.

    per: what it counts its hits by, unless a rule says otherwise.
    times: how many hits `make_rules` gives it; None: it lasts.
    """

    apply: Apply
    hosts: frozenset[Host]
    per: Unit = "address"
    times: int | None = 1


FAULTS: dict[str, Fault] = {
    "rate_limit": Fault(content.rate_limit, ALL_HOSTS),
    "server_error": Fault(content.server_error, ALL_HOSTS),
    "server_errors": Fault(content.server_error, ALL_HOSTS, "host", _BURST),
    "reset": Fault(wire.reset, ALL_HOSTS),
    "stall": Fault(wire.stall, ALL_HOSTS),
    "slow_bytes": Fault(wire.slow_bytes, ALL_HOSTS),
    "truncated": Fault(wire.truncated, ALL_HOSTS),
    "huge_headers": Fault(wire.huge_headers, ALL_HOSTS),
    "endless_body": Fault(wire.endless_body, ALL_HOSTS),
    "gzip_bomb": Fault(wire.gzip_bomb, ALL_HOSTS),
    "redirect_private": Fault(content.redirect_private, ALL_HOSTS),
    "redirect_loop": Fault(content.redirect_loop, ALL_HOSTS, times=None),
    "cut_file": Fault(content.cut_file, IMAGE_HOSTS),
    "lying_type": Fault(content.lying_type, IMAGE_HOSTS),
    "bomb": Fault(content.bomb, IMAGE_HOSTS),
    "changed_layout": Fault(content.changed_layout, PAGE_HOSTS, times=None),
    "empty_page": Fault(content.empty_page, LISTING_HOSTS),
    "endless_paging": Fault(content.endless_paging, LISTING_HOSTS, times=None),
    "moving_listing": Fault(content.moving_listing, frozenset({"imgflip", "reddit_api"})),
    "expired_token": Fault(content.expired_token, frozenset({"reddit_api"})),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One fault, switched on.

    fault: its name in `FAULTS`.
    share: of the addresses that it can hit, the part that it does hit (0-1).
    times: how many requests of each address it hits before it lets them pass; None: all.
    path: a pattern to be found in host and path, as in ``imgflip/meme/.*page=2``.
    settings: what the fault itself can be told; its docstring names them.
    after: how many requests of each address it lets pass before the first hit.
    every: begin anew after so many requests of each address; None: never.
    per: count by ``host`` or by bearer ``token`` and not by ``address``, in all of the above; None: the fault's own.
    """

    fault: str
    share: float = 1.0
    times: int | None = 1
    path: str = ""
    settings: content.Settings = field(default_factory=dict)
    after: int = 0
    every: int | None = None
    per: Unit | None = None

    def __post_init__(self) -> None:
        """Refuse a fault that does not exist."""
        if self.fault not in FAULTS:
            raise ConfigError(f"faults: no fault is called {self.fault!r}; there are {', '.join(FAULTS)}")
        re.compile(self.path)

    def hits(self, number: int) -> bool:
        """Whether it hits the `number`-th request, from 0, of an address."""
        turn = number % self.every if self.every else number
        return turn >= self.after and (self.times is None or turn < self.after + self.times)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the control endpoint."""
        return asdict(self)


class Switchboard:
    """The rules in force, and what each has seen of each address."""

    def __init__(self, rules: Sequence[Rule], seed: int) -> None:
        self._seed = seed
        self.set(rules)

    def set(self, rules: Sequence[Rule]) -> None:
        """Replace all rules and forget what the old ones saw."""
        self.rules = tuple(rules)
        self._seen: Counter[tuple[int, str]] = Counter()

    def pick(self, host: Host, request: web.Request) -> Rule | None:
        """The first rule that hits this request; those behind it do not see it."""
        address = host + request.rel_url.without_query_params(content.HOP).raw_path_qs
        for number, rule in enumerate(self.rules):
            if host not in FAULTS[rule.fault].hosts or not re.search(rule.path, address):
                continue
            unit = _unit(rule, host, address, request)
            if not self._chosen(rule, unit):
                continue
            turn = self._seen[number, unit]
            self._seen[number, unit] += 1
            if rule.hits(turn):
                return rule
        return None

    def _chosen(self, rule: Rule, unit: str) -> bool:
        digest = hashlib.sha256(f"{self._seed}/{rule.fault}/{unit}".encode()).digest()
        return int.from_bytes(digest[:6], "big") < rule.share * 2**48


def _unit(rule: Rule, host: Host, address: str, request: web.Request) -> str:
    match rule.per or FAULTS[rule.fault].per:
        case "host":
            return host
        case "token":
            return request.headers.get("Authorization", "")
    return address


def make_rules(faults: Mapping[str, float] | Sequence[Rule]) -> tuple[Rule, ...]:
    """Rules from ``{name: share}``: paging, layout and loops last, a burst is five, others pass after the first hit."""
    if not isinstance(faults, Mapping):
        return tuple(faults)
    return tuple(Rule(name, share, FAULTS[name].times if name in FAULTS else 1) for name, share in faults.items())
