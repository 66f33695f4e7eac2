"""One miniature internet a worker for the tests that only look, and a client that hides nothing of the wire."""

import gzip
import http.client
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from memeloom.demo.internet import Internet

_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1200,1000",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; header names are small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode()


Fetch = Callable[..., Answer]


@pytest.fixture(scope="session")
def fetch() -> Fetch:
    """Ask for an address once; redirects are not followed, errors are answers too."""

    def ask(url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=20)
        try:
            target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            connection.request(method, target, body or None, dict(headers or {}))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    return ask


@pytest.fixture(scope="session")
def internet() -> Iterator[Internet]:
    """The demo's own sites: 40 memes a template on Imgflip, 45 posts a subreddit, 150 found pictures."""
    with Internet(memes=480, posts=45) as running:
        yield running


@pytest.fixture(scope="session")
def _troubled() -> Iterator[Internet]:
    with Internet(memes=240, posts=45, pictures=40, subreddits=("memes", "prequel"), consent=()) as running:
        yield running


@pytest.fixture
def faulty(_troubled: Internet) -> Iterator[Internet]:
    """A miniature internet whose faults the test switches on; off again afterwards."""
    yield _troubled
    _troubled.set_faults({})


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    """A small folder in the layout of the real data: three templates, one of them without captions."""
    folder = tmp_path / "data"
    (folder / "templates" / "imgflip").mkdir(parents=True)
    entries = []
    for number, name in enumerate(("Red Fox", "Blue Whale", "Grey Wolf")):
        file = f"imgflip/{name.replace(' ', '-')}.jpg"
        Image.new("RGB", (926, 600), (200, 40 * number, 60)).save(folder / "templates" / file)
        entries.append(
            {
                "file": file, "name": name, "imgflip_id": str(900_000 + number), "imgflip_slug": name.replace(" ", "-"),
                "alt_names": ["one", "two"], "width": 926, "height": 600, "box_count": 2,
                "box_css": ["left: 4px; top: 195px; width: 455px; height: 100px; transform: rotate(353deg);",
                            "background: none; left: 4px; top: 4px; width: 455px; height: 100px;"],
            }
        )  # fmt: skip
    (folder / "templates" / "manifest.json").write_text(json.dumps(entries))
    captions = [["TOP", "BOTTOM"], ["ONLY ONE"], ["A", "B", "C"], ["X", "", "Y"], ["line\nbreak", "either | or"], [""]]
    rows = [
        {
            "template": slug, "post": f"https://imgflip.com/i/{key}{number}",
            "image_url": f"https://i.imgflip.com/{key}{number}.{'png' if number == 1 else 'jpg'}",
            "title": f"{slug} & friends", "views": "1,234" if number else "0", "votes": "5" if number else 0,
            "boxes": boxes,
        }
        for slug, key in (("Red-Fox", "fox"), ("Blue-Whale", "whal"), ("Unknown", "zzz"))
        for number, boxes in enumerate(captions[: 6 if slug == "Red-Fox" else 2])
    ]  # fmt: skip
    with gzip.open(folder / "imgflip_captions.jsonl.gz", "wt") as lines:
        lines.writelines(f"{json.dumps(row)}\n" for row in rows)
    return folder


@pytest.fixture(scope="session")
def decode() -> Callable[[bytes], Image.Image]:
    """A picture from its bytes, decoded to the last row."""

    def whole(data: bytes) -> Image.Image:
        picture = Image.open(BytesIO(data))
        picture.load()
        return picture

    return whole


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chrome]:
    """Chromium without a window and with a profile of its own."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("needs Debian's packages chromium and chromium-driver")
    options = Options()
    options.binary_location = binary
    for flag in (*_FLAGS, f"--user-data-dir={tmp_path}/profile"):
        options.add_argument(flag)
    chrome = Chrome(options, Service(driver))
    chrome.set_page_load_timeout(30)
    try:
        yield chrome
    finally:
        chrome.quit()


@pytest.fixture(scope="session")
def wait_for() -> Callable[..., None]:
    """Wait until a condition holds, and say what it was if it never does."""

    def wait(condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 15
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.05)

    return wait
