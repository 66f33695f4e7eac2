"""Record the feed being scrolled and liked, for the README: a headless Chromium, an animated WebP.

memeloom demo --serve                                # in one terminal; docs/tutorial.md says how to get a model
memeloom -c internet.yaml serve                      # in another
python docs/images/record_feed.py docs/images/feed.webp
"""

import io
import time
from pathlib import Path

import click
from PIL import Image
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.common.by import By

_SIZE = 390, 720
_FRAME_MS = 60
_HOLD_MS = 1400
_STEPS = 14  # frames from one meme to the next
_TOP = 64  # height of the page's header, in pixels
_SECONDS = 60
_PLACE = "return Math.round(document.querySelectorAll('article')[arguments[0]].getBoundingClientRect().top + scrollY)"
_DRAWN = "return [...document.querySelectorAll('article img')].slice(0, arguments[0]).every(each => each.naturalWidth)"
_TAP = """
const {left, top, width, height} = arguments[0].getBoundingClientRect();
const dot = document.body.appendChild(document.createElement("div"));
dot.id = "tap";
dot.style = `position:fixed;z-index:9;width:44px;height:44px;border-radius:50%;background:#8888;border:2px solid #fff;
  left:${left + width / 2 - 22}px;top:${top + height / 2 - 22}px`;
"""


class Recorder:
    """The feed in a browser as wide as a phone, and the frames so far."""

    def __init__(self, browser: Chrome) -> None:
        self._browser = browser
        self._frames: list[Image.Image] = []
        self._milliseconds: list[int] = []

    def open(self, address: str, memes: int) -> None:
        """Open the page and wait for its first `memes` pictures."""
        self._browser.get(address)
        button = self._browser.find_element(By.CSS_SELECTOR, "#directions button")
        self._browser.execute_script("arguments[0].click()", button)  # the pointer would stay there
        self._wait(_DRAWN, memes + 1)

    def look(self, milliseconds: int) -> None:
        """Add a frame."""
        self._frames.append(Image.open(io.BytesIO(self._browser.get_screenshot_as_png())).convert("RGB"))
        self._milliseconds.append(milliseconds)

    def scroll_to(self, meme: int) -> None:
        """Scroll until that meme is at the top, faster in the middle of the way."""
        start: int = self._browser.execute_script("return Math.round(scrollY)")
        way = self._browser.execute_script(_PLACE, meme) - _TOP - start
        for step in range(1, _STEPS + 1):
            part = step / _STEPS
            place = start + round(way * part * part * (3 - 2 * part))
            self._browser.execute_script("scrollTo({top: arguments[0], behavior: 'instant'})", place)
            self.look(_FRAME_MS)

    def like(self, meme: int) -> None:
        """Press the heart of that meme."""
        heart = self._browser.find_elements(By.CSS_SELECTOR, "article .like")[meme]
        self._browser.execute_script(_TAP, heart)
        self.look(3 * _FRAME_MS)
        self._browser.execute_script("arguments[0].click()", heart)
        for _ in range(3):
            self.look(_FRAME_MS)
        self._browser.execute_script("document.getElementById('tap').remove()")
        self.look(_HOLD_MS)
        self._wait("return document.getElementById('toast').hidden")

    def _wait(self, condition: str, *arguments: int) -> None:
        end = time.monotonic() + _SECONDS
        while not self._browser.execute_script(condition, *arguments):
            if time.monotonic() > end:
                raise click.ClickException(f"the page is not ready after {_SECONDS} s: {condition}")
            time.sleep(0.1)

    def save(self, path: Path, quality: int) -> None:
        """Write all frames."""
        first, *others = self._frames
        first.save(
            path, save_all=True, append_images=others, duration=self._milliseconds, loop=0, quality=quality, method=6
        )


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--address", default="http://127.0.0.1:8000/", show_default=True, help="Page of the feed.")
@click.option("--memes", default=4, show_default=True, help="Number of memes to scroll through.")
@click.option("--quality", default=60, show_default=True, help="Quality of the pictures, 0 to 100.")
def main(path: Path, address: str, memes: int, quality: int) -> None:
    """Record the feed into PATH, an animated WebP."""
    options = ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(argument)
    browser = Chrome(options=options)
    try:
        metrics = {"width": _SIZE[0], "height": _SIZE[1], "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        recorder = Recorder(browser)
        recorder.open(address, memes)
        recorder.look(_HOLD_MS)
        for meme in range(memes):
            if meme:
                recorder.scroll_to(meme)
                recorder.look(_HOLD_MS)
            if meme != 1:  # one is passed over
                recorder.like(meme)
        recorder.save(path, quality)
    finally:
        browser.quit()
    click.echo(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
