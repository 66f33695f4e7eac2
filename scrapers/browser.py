"""A real browser (Debian's Chromium, headless, driven by Selenium) for result pages that grow while one scrolls."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from configs.errors import MemeloomError
from configs.schema import ImageSearch

RESULT = "a.iusc"
MORE_BUTTON = "a.btn_seemore, input.btn_seemore, .mm_seemore a"

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_DRIVERS = ("chromedriver",)
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--window-size=1280,2000",
)  # fmt: skip
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 2.0


class BrowserFailed(MemeloomError):
    """The browser is missing, did not start, or broke down."""


def browse_results(url: str, settings: ImageSearch, user_agent: str, stopped: Callable[[], bool]) -> str:
    """The page at `url` as a browser shows it, scrolled to its end.

    The end is `results_per_query` results, two seconds in which nothing new came, `page_seconds`
    that are over, or `stopped()`. Blocks; run it in a thread.

    Raises:
        BrowserFailed: no browser, or it broke down.
    """
    end = time.monotonic() + settings.page_seconds
    with _browser(settings, user_agent) as browser:
        browser.get(url)
        count = 0
        while not stopped() and time.monotonic() < end and count < settings.results_per_query:
            count, before = _scroll(browser, count, min(end, time.monotonic() + _PATIENCE_SECONDS)), count
            if count == before:
                break
        return browser.page_source


def find_program(configured: str | None, names: tuple[str, ...], setting: str) -> str:
    """The program that the settings name, else the first of `names` on the PATH.

    Raises:
        BrowserFailed: there is none.
    """
    for name in (configured,) if configured else names:
        if found := shutil.which(name):
            return found
    wanted = configured or " or ".join(names)
    raise BrowserFailed(
        f"image search needs {wanted}, which is not here: apt-get install chromium chromium-driver, or set {setting}"
    )


def _scroll(browser: Chrome, count: int, end: float) -> int:
    """Go to the end of the page, ask for more there, and wait for more than `count` results; returns how many."""
    browser.execute_script("window.scrollTo(0, document.documentElement.scrollHeight)")
    for button in browser.find_elements(By.CSS_SELECTOR, MORE_BUTTON):
        if button.is_displayed():
            browser.execute_script("arguments[0].click()", button)
    while (found := len(browser.find_elements(By.CSS_SELECTOR, RESULT))) <= count and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    return found


@contextmanager
def _browser(settings: ImageSearch, user_agent: str) -> Iterator[Chrome]:
    """A browser with a profile of its own; it is gone when the block is left, however that happens."""
    binary = find_program(settings.browser, _BROWSERS, "crawl.images.browser")
    driver = find_program(settings.driver, _DRIVERS, "crawl.images.driver")
    with tempfile.TemporaryDirectory(prefix="memeloom-browser-", ignore_cleanup_errors=True) as profile:
        options = Options()
        options.binary_location = binary
        for flag in (*_FLAGS, f"--user-data-dir={profile}", f"--user-agent={user_agent}"):
            options.add_argument(flag)
        browser = None
        try:
            browser = Chrome(options, Service(driver))
            browser.set_page_load_timeout(settings.page_seconds)
            browser.set_script_timeout(settings.page_seconds)
            yield browser
        except WebDriverException as error:
            text = (error.msg or type(error).__name__).splitlines()[0]
            raise BrowserFailed(f"image search: the browser broke down: {text}") from error
        finally:
            if browser is not None:
                browser.quit()
