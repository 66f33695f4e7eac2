"""Pages of the documentation site in a browser, on phones and desktops; built as `make docs` builds it."""

import http.server
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

from docs.site.self_contained import foreign_assets

pytestmark = pytest.mark.soak  # `make docs` builds it in CI; here a browser opens each page at each width
ROOT = Path(__file__).parents[2]
WIDTHS = (1300, 390)
# True if a part of the page ends beyond its right edge, unless it, or what holds it, scrolls or is hidden.
OVERFLOWS = """
const wide = document.documentElement.clientWidth;
return [document.documentElement.scrollWidth - wide, document.title];
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", "docs/site/mkdocs.yml", "-d", folder]
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


def requested(browser: webdriver.Chrome) -> list[tuple[str, int]]:
    """Addresses that the page asked for since the last call, with their status; 0 for a request that failed."""
    import json

    found = []
    for entry in browser.get_log("performance"):
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
            excess, title = browser.execute_script(OVERFLOWS)  # type: ignore[no-untyped-call]
            if excess > 0:
                problems.append(f"{page} at {width}: {excess} pixels too wide")
            if not title:
                problems.append(f"{page}: no title")
            problems += [f"{page} at {width}: {line['message']}" for line in browser.get_log("browser")]
            problems += [
                f"{page} at {width}: {where} {status}"
                for where, status in requested(browser)
                if not 200 <= status < 400 or (urlsplit(where).scheme != "data" and not where.startswith(address))
            ]
    assert problems == []


def test_search_finds_a_setting_and_a_message(address: str, browser: webdriver.Chrome) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    resize(browser, 1300)
    for query, page in (("max_memes", "reference/settings/crawl/"), ("another training", "troubleshooting/")):
        browser.get(f"{address}/index.html?q={query}")

        def addresses(driver: webdriver.Chrome) -> list[str]:
            links = driver.find_elements(By.CSS_SELECTOR, "a.md-search-result__link")
            return [urlsplit(str(link.get_attribute("href"))).path.lstrip("/") for link in links]

        WebDriverWait(browser, 20).until(lambda driver: page in addresses(driver))


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    assert {path.name: found for path in site.rglob("*.html") if (found := [*foreign_assets(path.read_text())])} == {}
