"""How a browser is started: which one, with what it may not do."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from selenium.webdriver.chrome.options import Options

from memeloom.configs.schema import ImageSearch
from memeloom.scrapers.errors import BrowserFailed

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_DRIVERS = ("chromedriver",)
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1000",
    "--lang=en-US", "--no-first-run", "--no-default-browser-check",
    # ends with chromedriver, which holds the other end
    "--remote-debugging-pipe",
    # no way out but the gate: no name is resolved here, no datagram leaves
    "--proxy-bypass-list=<-loopback>", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-quic", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    # nothing of its own accord
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-default-apps", "--disable-domain-reliability", "--disable-client-side-phishing-detection",
    "--disable-breakpad", "--disable-crash-reporter", "--metrics-recording-only", "--no-pings",
    "--dns-prefetch-disable", "--disable-auto-reload",
    "--disable-features=MediaRouter,DialMediaRouteProvider,OptimizationHints,Translate,InterestFeedContentSuggestions",
    # pictures are fetched by us, questions are not answered
    "--blink-settings=imagesEnabled=false", "--mute-audio", "--deny-permission-prompts", "--disable-notifications",
)  # fmt: skip
_BLOCK = 2
_PREFERENCES = {
    "download_restrictions": 3,
    "download.prompt_for_download": False,
    "webrtc.ip_handling_policy": "disable_non_proxied_udp",
    "profile.default_content_setting_values": dict.fromkeys(
        (
            "popups", "notifications", "geolocation", "media_stream", "media_stream_camera", "media_stream_mic",
            "midi_sysex", "clipboard", "automatic_downloads", "protocol_handlers",
        ),
        _BLOCK,
    ),
}  # fmt: skip
# A socket's path has at most 107 bytes, and Chromium's ends in 60 of its own and of ours.
_LONGEST_FOLDER = 40


@dataclass(frozen=True, slots=True)
class Programs:
    """The browser and its driver, and how the browser introduces itself."""

    browser: str
    driver: str
    user_agent: str

    @classmethod
    def find(cls, settings: ImageSearch, product: str) -> "Programs":
        """The programs that the settings name, else the first on the PATH.

        product: who we are; the browser says what it is, and then that.

        Raises:
            BrowserFailed: there is none.
        """
        browser = _find(settings.browser, _BROWSERS, "crawl.images.browser")
        driver = _find(settings.driver, _DRIVERS, "crawl.images.driver")
        try:
            said = subprocess.run([browser, "--version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BrowserFailed(f"image search: {browser} does not run: {error}") from error
        version = re.search(r"(\d+)\.\d+\.\d+", said.stdout)
        engine = f" HeadlessChrome/{version[1]}.0.0.0" if version else ""
        system = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"
        return cls(browser, driver, f"{system}{engine} Safari/537.36 {product}")

    def options(self, folder: Path | None, gate_port: int) -> Options:
        """How the browser is started, with a profile in `folder`, behind the gate at `gate_port`."""
        options = Options()
        options.binary_location = self.browser
        own = (
            f"--user-data-dir={folder}/profile",
            f"--user-agent={self.user_agent}",
            f"--proxy-server=http://127.0.0.1:{gate_port}",
        )
        for flag in (*_FLAGS, *own):
            options.add_argument(flag)
        options.page_load_strategy = "eager"
        options.unhandled_prompt_behavior = "dismiss"
        options.enable_bidi = True
        options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
        options.add_experimental_option("perfLoggingPrefs", {"enableNetwork": True, "enablePage": False})
        options.add_experimental_option("excludeSwitches", ["disable-popup-blocking"])
        options.add_experimental_option("prefs", _PREFERENCES)
        return options


def folders() -> Path:
    """Where browsers keep their folders: the temporary folder, unless its path is too long for the sockets in it."""
    usual = Path(tempfile.gettempdir())
    return usual if len(str(usual)) <= _LONGEST_FOLDER else Path("/tmp")  # noqa: S108 -- names in it are random


def _find(configured: str | None, names: tuple[str, ...], setting: str) -> str:
    for name in (configured,) if configured else names:
        if found := shutil.which(name):
            return found
    wanted = configured or " or ".join(names)
    raise BrowserFailed(
        f"image search needs {wanted}, which is not here: apt-get install chromium chromium-driver, or set {setting}"
    )
