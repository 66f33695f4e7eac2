"""A real browser (Debian's Chromium, headless, driven by Selenium) for result pages that grow while one scrolls."""

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from urllib3.exceptions import HTTPError

from configs.schema import ImageSearch
from scrapers.errors import BrowserFailed
from scrapers.pages.bing import MORE_BUTTON, RESULT

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_DRIVERS = ("chromedriver",)
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--window-size=1280,2000",
)  # fmt: skip
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 5.0
_GRACE_SECONDS = 30.0
_BREAKDOWNS = (WebDriverException, HTTPError, OSError)


def browse_results(url: str, settings: ImageSearch, user_agent: str, stopped: Callable[[], bool]) -> str:
    """The page at `url` as a browser shows it, scrolled to its end.

    The end is `results_per_query` results, five seconds in which nothing new came, `page_seconds`
    that are over, or `stopped()`. Blocks; run it in a thread.

    Raises:
        BrowserFailed: no browser, or it broke down, or it did not end in time.
    """
    end = time.monotonic() + settings.page_seconds
    with _browser(settings, user_agent) as browser:
        browser.get(url)
        count = len(browser.find_elements(By.CSS_SELECTOR, RESULT))
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
    """A browser with a profile of its own; it is gone when the block is left, and half a minute after its time."""
    binary = find_program(settings.browser, _BROWSERS, "crawl.images.browser")
    service = Service(find_program(settings.driver, _DRIVERS, "crawl.images.driver"))
    with tempfile.TemporaryDirectory(prefix="memeloom-browser-", ignore_cleanup_errors=True) as profile:
        options = Options()
        options.binary_location = binary
        for flag in (*_FLAGS, f"--user-data-dir={profile}", f"--user-agent={user_agent}"):
            options.add_argument(flag)
        # Selenium waits for its driver without a limit; a driver that is gone ends that wait.
        alarm = threading.Timer(settings.page_seconds + _GRACE_SECONDS, _kill, (service, profile))
        alarm.daemon = True
        alarm.start()
        browser = None
        try:
            browser = Chrome(options, service)
            browser.set_page_load_timeout(settings.page_seconds)
            browser.set_script_timeout(settings.page_seconds)
            yield browser
        except _BREAKDOWNS as error:
            text = (str(error) or type(error).__name__).splitlines()[0]
            raise BrowserFailed(f"image search: the browser broke down: {text}") from error
        finally:
            if browser is not None:
                with suppress(*_BREAKDOWNS):
                    browser.quit()
            alarm.cancel()
            _kill(service, profile)


def _kill(service: Service, profile: str) -> None:
    """End the driver, and every process that was started with this profile."""
    driver = getattr(service, "process", None)
    if driver is not None:
        driver.kill()
        driver.wait()
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"--user-data-dir={profile}".encode() in command.read_bytes():
                os.kill(int(command.parent.name), signal.SIGKILL)
