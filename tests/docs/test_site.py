"""Pages of the documentation site in a browser, on phones and desktops; built as `make docs` builds it."""

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.wait import WebDriverWait

from docs.site.self_contained import foreign_assets

pytestmark = pytest.mark.soak  # `make docs` builds it in CI; here a browser opens each page at each width
ROOT = Path(__file__).parents[2]
WIDTHS = (1300, 390)
# How much wider than the window the page is, in pixels.
EXCESS = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=280)
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path="/usr/bin/chromedriver")
    with webdriver.Chrome(options=options, service=service) as driver:
        driver.set_page_load_timeout(60)
        yield driver


def resize(browser: webdriver.Chrome, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def log(browser: webdriver.Chrome, kind: str) -> list[dict[str, Any]]:
    """Lines of a log of the browser since the last call."""
    lines: list[dict[str, Any]] = browser.get_log(kind)  # type: ignore[no-untyped-call]
    return lines


def requested(browser: webdriver.Chrome) -> list[tuple[str, int]]:
    """Addresses that the page asked for since the last call, with their status; 0 for a request that failed."""
    found = []
    for entry in log(browser, "performance"):
        message: dict[str, Any] = json.loads(entry["message"])["message"]
        if message["method"] == "Network.responseReceived":
            response = message["params"]["response"]
            found.append((response["url"], response["status"]))
        elif message["method"] == "Network.loadingFailed" and not message["params"].get("canceled"):
            found.append((message["params"]["errorText"], 0))
    return found


def test_each_page_fits_and_loads_without_errors(site: Path, address: str, browser: webdriver.Chrome) -> None:
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    assert len(pages) > 70
    problems = []
    for width in WIDTHS:
        resize(browser, width)
        for page in pages:
            browser.get(f"{address}/{page}")
            if excess := browser.execute_script(EXCESS):
                problems.append(f"{page} at {width}: {excess} pixels too wide")
            problems += [f"{page} at {width}: {line['message']}" for line in log(browser, "browser")]
            problems += [
                f"{page} at {width}: {where} {status}"
                for where, status in requested(browser)
                if not 200 <= status < 400 or (urlsplit(where).scheme != "data" and not where.startswith(address))
            ]
    assert problems == []


def test_search_finds_a_setting_and_a_message(address: str, browser: webdriver.Chrome) -> None:
    resize(browser, 1300)
    for query, page in (("max_memes", "reference/settings/crawl/"), ("another training", "troubleshooting/")):
        browser.get(f"{address}/index.html?q={query}")

        link = f'a.md-search-result__link[href*="/{page}"]'
        WebDriverWait(browser, 20).until(expected_conditions.presence_of_element_located((By.CSS_SELECTOR, link)))


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    assert {path.name: found for path in site.rglob("*.html") if (found := [*foreign_assets(path.read_text())])} == {}
