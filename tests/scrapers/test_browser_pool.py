"""Real browsers: one page never meets another, nothing private is reached, and no end is so bad that one is left."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError

from memeloom.configs.load import load_config
from memeloom.configs.schema import ImageSearch
from memeloom.scrapers.browsers import keeper, launch
from memeloom.scrapers.browsers.browser import Page
from memeloom.scrapers.browsers.pool import BrowserPool
from memeloom.scrapers.errors import BrowserFailed, LayoutChanged
from memeloom.scrapers.guard import AddressRefused
from memeloom.scrapers.pages.bing import ENGINE
from tests.scrapers.chromium import browsers_in, named, short_folder, wait_until
from tests.scrapers.reactor import on_reactor
from tests.services.website import Answer, Asked, Website, serving

T = TypeVar("T")
Used = Callable[[BrowserPool], Awaitable[T]]

RESULT = '<a class="iusc" m="{}">one</a>'


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where browsers put their folders in this test."""
    with short_folder() as path:
        monkeypatch.setattr(tempfile, "tempdir", str(path))
        yield path


@pytest.fixture(scope="module")
def shared_pool() -> Iterator[BrowserPool]:
    """One browser for all tests that need no settings of their own; nothing of it may be left afterwards."""
    with short_folder() as path, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(path))
        pool = on_reactor(_made(pool_of)).result(60)
        yield pool
        on_reactor(pool.close()).result(60)
        assert list(path.iterdir()) == []
        assert browsers_in(path) == []


@pytest.fixture
def using_shared(shared_pool: BrowserPool) -> Callable[..., Any]:
    """Runs a coroutine function on the shared pool, whose pages may reach `localhost`."""
    return lambda use: on_reactor(use(shared_pool)).result(120)


async def _made(make: Callable[[], T]) -> T:
    """What is made on the event loop."""
    return make()


@pytest.fixture
def using(website: Website, folder: Path) -> Callable[..., Any]:
    """Runs a coroutine function on a pool of the test's own; nothing of it may be left afterwards."""

    def run(use: Used[T], **changes: Any) -> T:
        async def main() -> T:
            pool = pool_of(**changes)
            try:
                return await use(pool)
            finally:
                await pool.close()

        found = asyncio.run(main())
        assert list(folder.iterdir()) == []
        assert browsers_in(folder) == []
        return found

    return run


def settings_of(**changes: Any) -> ImageSearch:
    return load_config(environment={}).crawl.images.model_copy(update={"page_seconds": 20.0} | changes)


def pool_of(**changes: Any) -> BrowserPool:
    allowed = changes.pop("allow_hosts", ("localhost",))
    return BrowserPool(settings_of(**changes), "memeloom/test (+https://contact.example)", allowed)


def local(website: Website, path: str = "/") -> str:
    """The address of a page of the website on the host that pages may reach."""
    return website.url.replace("127.0.0.1", "localhost") + path


async def show(pool: BrowserPool, url: str, results: int = 1, stopped: Callable[[], bool] = lambda: False) -> Page:
    page = await pool.show(url, ENGINE, results, stopped)
    assert page is not None
    return page


def test_a_page_is_shown_with_its_status_its_headers_and_who_we_are(
    website: Website, using_shared: Callable[..., Any]
) -> None:
    website.pages["/"] = (429, {"Retry-After": "7", "Content-Type": "text/html"}, b"<p>later")
    page = using_shared(lambda pool: show(pool, local(website)))
    assert (page.url, page.status, page.headers["Retry-After"], page.finished) == (local(website), 429, "7", True)
    assert "<p>later" in page.html
    agent = website.asked[0].headers["User-Agent"]
    assert "Chrome/" in agent
    assert agent.endswith(" memeloom/test (+https://contact.example)")


REMEMBERS = """<script>
(async () => {
  const held = await caches.keys(), known = document.cookie + (localStorage.name || "") + name + held;
  document.body.innerHTML = `<p id=known>knows:${known}</p>` + document.body.innerHTML;
  document.cookie = localStorage.name = window.name = location.search;
  await caches.open(location.search);
  await fetch("/met" + location.search);
  document.body.innerHTML += '<a class="iusc">' + document.cookie + localStorage.name + name + "</a>";
})();
</script><body></body>"""


def test_a_page_knows_nothing_of_the_one_before(website: Website, using_shared: Callable[..., Any]) -> None:
    website.pages["/?one"] = website.pages["/?two"] = (200, {"Content-Type": "text/html"}, REMEMBERS.encode())

    async def use(pool: BrowserPool) -> list[Page]:
        return [await show(pool, local(website, path)) for path in ("/?one", "/?two")]

    for page, own in zip(using_shared(use), ("?one", "?two"), strict=True):
        assert '<p id="known">knows:</p>' in page.html
        assert own * 3 in page.html


def test_two_pages_at_once_know_nothing_of_each_other(website: Website, using: Callable[..., Any]) -> None:
    both = threading.Barrier(2, timeout=60)

    def met(_asked: Asked) -> Answer:
        both.wait()
        return 200, {}, b""

    for name in ("?one", "?two"):
        website.pages[f"/{name}"] = (200, {"Content-Type": "text/html"}, REMEMBERS.encode())
        website.pages[f"/met{name}"] = met

    async def use(pool: BrowserPool) -> list[Page]:
        return list(await asyncio.gather(*(show(pool, local(website, path)) for path in ("/?one", "/?two"))))

    one, two = using(use, browsers=2)
    assert "?one" * 3 in one.html
    assert "?two" not in one.html
    assert "?two" * 3 in two.html
    assert "?one" not in two.html


def test_a_browser_shows_one_page_at_a_time(website: Website, using_shared: Callable[..., Any]) -> None:
    shown: list[str] = []

    def slowly(asked: Asked) -> Answer:
        shown.append(asked.path)
        time.sleep(0.3)
        shown.append(asked.path)
        return 200, {"Content-Type": "text/html"}, RESULT.encode()

    website.pages |= {f"/{number}": slowly for number in range(3)}

    async def use(pool: BrowserPool) -> None:
        await asyncio.gather(*(show(pool, local(website, f"/{number}")) for number in range(3)))

    using_shared(use)
    assert shown[::2] == shown[1::2]
    assert sorted(shown[::2]) == ["/0", "/1", "/2"]


ATTEMPTS = """<a class="iusc"></a>
<img src="{0}/img"><link rel="stylesheet" href="{0}/css"><script src="{0}/js"></script><iframe src="{0}/frame"></iframe>
<script>
const tries = [fetch("{0}/fetch", {{mode: "no-cors"}}), navigator.sendBeacon("{0}/beacon"),
  new Promise(done => {{ const s = new WebSocket("{1}/socket"); s.onerror = s.onopen = done; }}),
  new Promise(done => {{ const e = new EventSource("{0}/events"); e.onerror = e.onopen = done; }})];
Promise.allSettled(tries).then(() => {{ document.body.insertAdjacentHTML("beforeend", '<a class="iusc">end</a>') }});
</script>"""


def test_what_a_page_embeds_is_not_fetched_from_private_addresses(
    website: Website, using_shared: Callable[..., Any]
) -> None:
    with serving() as secret:
        port = secret.url.rpartition(":")[2]
        for number, host in enumerate((f"127.0.0.1:{port}", "169.254.169.254", f"[::1]:{port}")):
            website.html(f"/{number}", ATTEMPTS.format(f"http://{host}", f"ws://{host}"))

        async def use(pool: BrowserPool) -> list[Page]:
            return [await show(pool, local(website, f"/{number}"), 2) for number in range(3)]

        assert all("end</a>" in page.html for page in using_shared(use))
        assert secret.asked == []


def test_what_a_page_embeds_from_an_allowed_host_is_fetched(website: Website, using: Callable[..., Any]) -> None:
    with serving() as other:
        website.html("/", ATTEMPTS.format(other.url, other.url.replace("http", "ws")))
        using(lambda pool: show(pool, local(website), 2), allow_hosts=("localhost", "127.0.0.1"))
        assert {"/css", "/js", "/frame", "/fetch"} <= {asked.path for asked in other.asked}
        assert "/img" not in {asked.path for asked in other.asked}  # pictures are none of a browser's business


def test_a_page_that_leads_to_a_private_address_is_refused(website: Website, using_shared: Callable[..., Any]) -> None:
    with serving() as secret:
        port = secret.url.rpartition(":")[2]
        targets = (f"http://127.0.0.1:{port}/", f"https://127.0.0.1:{port}/", "http://169.254.169.254/")
        for number, target in enumerate(targets):
            website.pages[f"/redirect{number}"] = (302, {"Location": target}, b"")
            website.html(f"/script{number}", f"<script>location.replace('{target}')</script>")

        async def use(pool: BrowserPool) -> None:
            for number in range(len(targets)):
                for how in ("redirect", "script"):
                    with pytest.raises(AddressRefused, match="is not public"):
                        await show(pool, local(website, f"/{how}{number}"))

        using_shared(use)
        assert secret.asked == []


def test_no_datagram_leaves_the_browser(website: Website, using_shared: Callable[..., Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stun:
        stun.bind(("127.0.0.1", 0))
        port = stun.getsockname()[1]
        website.html(
            "/",
            f"""<body><script>
            const peer = new RTCPeerConnection({{iceServers: [{{urls: "stun:127.0.0.1:{port}"}}]}});
            peer.createDataChannel("x");
            peer.onicegatheringstatechange = () => {{
              if (peer.iceGatheringState == "complete") document.body.innerHTML = '<a class="iusc"></a>';
            }};
            peer.createOffer().then(offer => peer.setLocalDescription(offer));
            </script>""",
        )
        assert using_shared(lambda pool: show(pool, local(website))).html.count("iusc") > 0
        stun.setblocking(False)
        with pytest.raises(BlockingIOError):
            stun.recv(1)


def test_no_download_no_pop_up_no_question(website: Website, using: Callable[..., Any], folder: Path) -> None:
    website.pages["/file"] = (200, {"Content-Disposition": "attachment; filename=evil.sh"}, b"#!/bin/sh")
    website.html("/popup", "<script>fetch('/popped')</script>")
    website.html(
        "/",
        """<body><script>
        alert("one"); const yes = confirm("two"), said = prompt("three");
        const opened = window.open("/popup");
        const file = Object.assign(document.createElement("a"), {href: "/file", download: "evil.sh"});
        document.body.append(file); file.click();
        const names = ["geolocation", "notifications", "camera", "microphone"];
        Promise.all(names.map(name => navigator.permissions.query({name}))).then(granted => {
          const answers = granted.map(one => one.state);
          document.body.innerHTML += `<a class="iusc">${[yes, said, opened]} ${answers}</a>`;
        });
        </script>""",
    )
    kept: list[Path] = []

    async def use(pool: BrowserPool) -> Page:
        page = await show(pool, local(website))
        await show(pool, local(website))
        kept.extend(folder.rglob("evil*"))
        return page

    assert '<a class="iusc">,, denied,denied,denied,denied</a>' in using(use).html
    assert kept == []
    assert "/popped" not in {asked.path for asked in website.asked}


def test_a_browser_is_replaced_after_so_many_pages(website: Website, using: Callable[..., Any], folder: Path) -> None:
    website.html("/", RESULT)

    async def use(pool: BrowserPool) -> list[list[int]]:
        drivers = []
        for _ in range(4):
            await show(pool, local(website))
            drivers.append(named("chromedriver", folder))
        return drivers

    first, second, third, fourth = using(use, pages_per_browser=2)
    assert (len(first), second, len(third), fourth) == (1, [], 1, [])
    assert first != third


def test_a_browser_that_has_grown_is_replaced(website: Website, using: Callable[..., Any], folder: Path) -> None:
    website.html("/", RESULT)

    async def use(pool: BrowserPool) -> list[int]:
        await show(pool, local(website))
        return named("chromedriver", folder)

    assert using(use, browser_memory_mb=50) == []


@pytest.mark.parametrize(
    ("program", "blow", "error"),
    [
        ("chromium", signal.SIGKILL, DownloadFailedError),
        ("chromedriver", signal.SIGSTOP, DownloadTimeoutError),
        ("keeper", signal.SIGKILL, DownloadFailedError),
        pytest.param("chromedriver", signal.SIGKILL, DownloadFailedError, marks=pytest.mark.soak),
        pytest.param("chromium", signal.SIGSTOP, DownloadTimeoutError, marks=pytest.mark.soak),
    ],
)
def test_a_browser_that_dies_or_hangs_is_replaced(
    website: Website, using: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch,
    program: str, blow: signal.Signals, error: type[Exception],
) -> None:  # fmt: skip
    monkeypatch.setattr("memeloom.scrapers.browsers.pool._GRACE_SECONDS", 1.0)
    website.html("/good", RESULT)
    keepers: list[int] = []

    def strike(_asked: Asked) -> Answer:
        victims = keepers if program == "keeper" else named(program, folder)
        for victim in victims:
            with suppress(ProcessLookupError):
                os.kill(victim, blow)
        return 200, {"Content-Type": "text/html"}, RESULT.encode()

    website.pages["/bad"] = strike

    async def use(pool: BrowserPool) -> Page:
        await show(pool, local(website, "/good"))
        keepers.extend(int(Path(f"/proc/{number}/stat").read_text().split()[3]) for number in named("chromedr", folder))
        with pytest.raises(error):
            await show(pool, local(website, "/bad"))
        return await show(pool, local(website, "/good"))

    assert using(use, page_seconds=3.0).status == 200


def test_a_page_whose_script_never_ends_is_given_up(website: Website, using: Callable[..., Any]) -> None:
    website.html("/bad", f"{RESULT}<script>setTimeout(() => {{ for (;;); }}, 0)</script>")
    website.html("/good", RESULT)

    async def use(pool: BrowserPool) -> Page:
        with pytest.raises(DownloadTimeoutError):
            await show(pool, local(website, "/bad"), 2)
        return await show(pool, local(website, "/good"))

    assert using(use, page_seconds=2.0).status == 200


def test_a_page_that_does_not_come_is_given_up(website: Website, using: Callable[..., Any]) -> None:
    released = threading.Event()

    def never(_asked: Asked) -> Answer:
        released.wait(60)
        return 200, {}, b""

    website.pages["/"] = never
    try:
        with pytest.raises(DownloadTimeoutError):
            using(lambda pool: show(pool, local(website)), page_seconds=1.5)
    finally:
        released.set()


def test_a_site_that_is_not_there_is_a_failure_that_may_pass(
    website: Website, using_shared: Callable[..., Any]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    async def use(pool: BrowserPool) -> None:
        for scheme in ("http", "https"):
            with pytest.raises(DownloadFailedError, match="cannot be reached"):
                await show(pool, f"{scheme}://localhost:{port}/")

    using_shared(use)


def test_a_stop_ends_the_scrolling_and_what_waits_for_a_browser(website: Website, using: Callable[..., Any]) -> None:
    website.html(
        "/",
        f"""<body style="height: 3000px">{RESULT}<script>
        let n = 0; onscroll = () => {{
          document.body.insertAdjacentHTML("beforeend", '{RESULT}<p style="height: 3000px">');
          if (++n == 3) fetch("/stop");
        }};</script>""",
    )
    stop = threading.Event()

    def ask(_asked: Asked) -> Answer:
        stop.set()
        return 200, {}, b""

    website.pages["/stop"] = ask

    async def use(pool: BrowserPool) -> list[Page | None]:
        pages = (pool.show(local(website), ENGINE, 10**6, stop.is_set) for _ in range(2))
        return list(await asyncio.gather(*pages))

    shown, waiting = using(use, page_seconds=120.0)
    assert waiting is None
    assert (shown.status, shown.finished) == (200, False)
    assert shown.html.count("iusc") >= 3


CONSENT = """<body><div id=box><p>We use cookies</p><button onclick="{no}">{label}</button></div><script>
if (document.cookie.includes("no=1")) {{ box.remove(); document.body.innerHTML += '<a class="iusc"></a>' }}
</script>"""


def test_a_consent_screen_is_closed_in_many_languages(website: Website, using_shared: Callable[..., Any]) -> None:
    labels = ["Reject all", "Alle ablehnen", "  TOUT REFUSER ", "すべて拒否", "Accept all"]
    for number, label in enumerate(labels):
        website.html(f"/{number}", CONSENT.format(no="document.cookie='no=1'; location.reload()", label=label))

    async def use(pool: BrowserPool) -> list[Page]:
        return [await show(pool, local(website, f"/{number}")) for number in range(len(labels))]

    assert all('<a class="iusc">' in page.html for page in using_shared(use))


def test_the_modest_answer_is_preferred(website: Website, using_shared: Callable[..., Any]) -> None:
    website.html(
        "/",
        """<body><button>Accept all</button><button>Reject all</button><script>
        for (const b of document.querySelectorAll("button"))
          b.onclick = () => { document.body.innerHTML = `<a class="iusc">${b.innerText}</a>` };
        </script>""",
    )
    assert '<a class="iusc">Reject all</a>' in using_shared(lambda pool: show(pool, local(website))).html


def test_a_consent_screen_that_stays_is_a_changed_layout(
    website: Website, using_shared: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memeloom.scrapers.browsers.scroll._PATIENCE_SECONDS", 1.0)
    for number, answer in enumerate(("", "location.reload()")):
        website.html(f"/{number}", CONSENT.format(no=answer, label="Reject all"))

    async def use(pool: BrowserPool) -> None:
        for number in range(2):
            with pytest.raises(LayoutChanged, match=r"bing: 'consent screen \(#bnp_btn_reject\)'"):
                await show(pool, local(website, f"/{number}"))

    using_shared(use)


OWNER = """
import asyncio, sys, tempfile
tempfile.tempdir = sys.argv[2]
from tests.scrapers.test_browser_pool import pool_of, show
async def main():
    pool = pool_of(page_seconds=600.0, browsers=2)
    await asyncio.gather(*(show(pool, sys.argv[1], 10) for _ in range(2)))
asyncio.run(main())
"""


def test_nothing_is_left_of_an_owner_that_is_killed(website: Website, folder: Path) -> None:
    arrived = threading.Barrier(3, timeout=60)

    def met(_asked: Asked) -> Answer:
        arrived.wait()
        return 200, {}, b""

    website.html("/", "<script>fetch('/here')</script>")
    website.pages["/here"] = met
    owner = subprocess.Popen([sys.executable, "-c", OWNER, local(website), str(folder)], cwd=Path(__file__).parents[2])
    try:
        arrived.wait()
        assert len(named("chromedriver", folder)) == 2
        assert len(list(folder.iterdir())) == 2
    finally:
        owner.kill()
        owner.wait()
    wait_until(lambda: not browsers_in(folder) and not list(folder.iterdir()), 15)


def test_what_a_killed_keeper_left_is_swept_and_what_lives_is_not(
    website: Website, using: Callable[..., Any], folder: Path
) -> None:
    website.html("/", RESULT)
    stale = folder / f"{keeper.PREFIX}stale"
    (stale / "profile").mkdir(parents=True)
    os.utime(stale, (0, 0))
    (folder / "other").mkdir()
    os.utime(folder / "other", (0, 0))
    user = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", f"--user-data-dir={stale}/profile"]
    )  # fmt: skip

    async def use(pool: BrowserPool) -> tuple[list[Path], list[Path]]:
        await show(pool, local(website))
        (living,) = folder.glob(f"{keeper.PREFIX}*")
        os.utime(living, (0, 0))
        swept = keeper.sweep(folder)
        await show(pool, local(website))
        (folder / "other").rmdir()
        return swept, [living]

    swept, living = using(use)
    assert swept == []
    assert living != [stale]
    assert user.wait(30) == -signal.SIGKILL


@pytest.mark.parametrize("name", ["browser", "driver"])
def test_without_a_browser_or_a_driver_the_error_says_what_to_do(
    website: Website, using: Callable[..., Any], name: str
) -> None:
    with pytest.raises(BrowserFailed, match=rf"crawl\.images\.{name}: no such program: '/no/such/{name}'"):
        using(lambda pool: show(pool, local(website)), **{name: f"/no/such/{name}"})


def test_a_browser_that_never_starts_is_a_failure_at_last(website: Website, using: Callable[..., Any]) -> None:
    async def use(pool: BrowserPool) -> None:
        for _ in range(2):
            with pytest.raises(DownloadFailedError, match="the browser does not start"):
                await show(pool, local(website))
        with pytest.raises(BrowserFailed, match="image search: the browser does not start"):
            await show(pool, local(website))

    using(use, driver="/bin/true")


def test_a_browser_starts_behind_a_proxy_and_sees_none_of_our_secrets(
    website: Website, using: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMELOOM_CRAWL__REDDIT__CLIENT_SECRET", "hunter2")
    monkeypatch.setenv("http_proxy", "http://me:hunter2@proxy.example")
    monkeypatch.setenv("no_proxy", "")
    website.html("/", RESULT)

    async def use(pool: BrowserPool) -> list[bytes]:
        await show(pool, local(website))
        return [Path(f"/proc/{number}/environ").read_bytes() for number in browsers_in(folder)]

    environments = using(use, allow_hosts=("localhost", "proxy.example"))
    assert len(environments) > 2
    assert not any(b"hunter2" in environment for environment in environments)


@pytest.mark.parametrize(
    ("user", "helper", "namespaces", "why"),
    [(0, True, True, "it runs as root"), (1000, True, False, None), (1000, False, True, None),
     (1000, False, False, "this system has no user namespaces")],
)  # fmt: skip
def test_the_sandbox_is_left_out_only_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    user: int, helper: bool, namespaces: bool, why: str | None,
) -> None:  # fmt: skip
    programs = launch.Programs(str(tmp_path / "chromium"), "chromedriver")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(launch, "_HELPER_FOLDER", tmp_path)
    monkeypatch.setattr(launch, "_PROBE", ["true" if namespaces else "false"])
    if helper:
        (tmp_path / "chrome-sandbox").touch(0o755)
        (tmp_path / "chrome-sandbox").chmod(0o4755)
    for cached in (launch.why_no_sandbox, launch._warn_once):
        cached.cache_clear()
    flags = [programs.options(tmp_path, 1, "me").arguments for _ in range(2)]
    launch.why_no_sandbox.cache_clear()
    assert ["--no-sandbox" in some for some in flags] == [why is not None] * 2
    said = [] if why is None else [f"image search: the browser runs without its sandbox, because {why}"]
    assert caplog.messages == said, "it is told once"


AS_ANOTHER_USER = """#!/bin/sh
chmod 777 "$HOME" "$HOME/tmp"
exec setpriv --reuid=65534 --regid=65534 --clear-groups chromedriver "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the rights to become another user")
def test_a_browser_of_an_ordinary_user_runs_in_its_sandbox(
    website: Website, using: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *launch._PROBE]
    if subprocess.run(probe, check=False, capture_output=True).returncode:
        pytest.skip("this system gives ordinary users no namespaces")
    folder.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    launch.why_no_sandbox.cache_clear()
    website.html("/", RESULT)

    async def use(pool: BrowserPool) -> list[bytes]:
        await show(pool, local(website))
        return [Path(f"/proc/{number}/cmdline").read_bytes() for number in browsers_in(folder)]

    with short_folder() as programs:
        driver = programs / "chromedriver"
        driver.write_text(AS_ANOTHER_USER)
        driver.chmod(0o755)
        lines = using(use, driver=str(driver))
    launch.why_no_sandbox.cache_clear()
    assert any(b"--type=renderer" in line for line in lines)
    assert not any(b"--no-sandbox" in line for line in lines)
