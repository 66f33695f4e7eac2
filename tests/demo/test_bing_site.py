"""The image search: results as JSON in the page, more of them only in a browser that scrolls and presses the button."""

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pytest
from parsel import Selector
from selenium.common.exceptions import ElementClickInterceptedException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from memeloom.demo.internet import Internet

Fetch: TypeAlias = Callable[..., Any]


def facts(html: str) -> list[dict[str, str]]:
    return [json.loads(text) for text in Selector(html).css("a.iusc::attr(m)").getall()]


def test_the_page_shows_35_results_with_their_addresses(internet: Internet, fetch: Fetch) -> None:
    found = facts(fetch(internet.url("bing", "/images/search?q=funny+memes")).text)
    assert len(found) == 35
    known = {meme.image_url: meme for meme in internet.served(hashes=True) if meme.source == "images"}
    assert len(known) == 150
    for result in found:
        assert {"murl", "turl", "purl", "t", "desc", "md5", "mid"} <= set(result)
        assert result["purl"] == known[result["murl"]].page_url
    for address in [result["murl"] for result in found][::9]:
        body = fetch(address).body
        assert hashlib.sha256(body).hexdigest() == known[address].sha256
        assert known[address].id == f"images:{hashlib.sha256(address.encode()).hexdigest()[:24]}"


def test_further_pages_reach_every_picture_and_repeat_some(internet: Internet, fetch: Fetch) -> None:
    found, first = [], 0
    while part := facts(fetch(internet.url("bing", f"/images/async?q=cats&first={first}&count=35")).text):
        found += [result["murl"] for result in part]
        first += 35
    assert set(found) == {meme.image_url for meme in internet.served() if meme.source == "images"}
    assert len(found) > len(set(found))


def test_a_query_is_escaped(internet: Internet, fetch: Fetch) -> None:
    page = fetch(internet.url("bing", "/images/search?q=%3C/title%3E%3Cscript%3Ealert(1)%3C/script%3E%22"))
    assert "<script>alert" not in page.text
    assert 'alert(1)"' not in page.text


def results(browser: Chrome) -> int:
    return len(browser.find_elements(By.CSS_SELECTOR, "a.iusc"))


def has_results(browser: Chrome, count: int) -> bool:
    return results(browser) >= count


def test_a_browser_gets_more_results_by_scrolling_and_by_the_button(
    internet: Internet, browser: Chrome, wait_for: Callable[..., None]
) -> None:
    browser.get(internet.url("bing", "/images/search?q=funny+memes"))
    button = browser.find_element(By.CSS_SELECTOR, ".btn_seemore")
    assert results(browser) == 35
    for expected in (70, 105, 140):
        assert not button.is_displayed()
        browser.execute_script("window.scrollTo(0, document.documentElement.scrollHeight)")
        wait_for(partial(has_results, browser, expected), f"{expected} results after scrolling")
    wait_for(button.is_displayed, "the button after three times of scrolling")
    browser.execute_script("window.scrollTo(0, 0)")
    browser.execute_script("window.scrollTo(0, document.documentElement.scrollHeight)")
    assert results(browser) == 140
    button.click()
    wait_for(partial(has_results, browser, 141), "more results after the button")
    found = facts(browser.page_source)
    assert {entry["murl"] for entry in found} == {
        meme.image_url for meme in internet.served() if meme.source == "images"
    }


def test_the_consent_banner_covers_the_button(browser: Chrome, wait_for: Callable[..., None], fetch: Fetch) -> None:
    with Internet(memes=12, pictures=150, consent=("bing",)) as asking:
        url = asking.url("bing", "/images/search?q=funny+memes")
        browser.get(url)
        button = browser.find_element(By.CSS_SELECTOR, ".btn_seemore")
        for expected in (70, 105, 140):
            browser.execute_script("window.scrollTo(0, document.documentElement.scrollHeight)")
            wait_for(partial(has_results, browser, expected), f"{expected} results after scrolling")
        wait_for(button.is_displayed, "the button")
        browser.execute_script("arguments[0].scrollIntoView({block: 'end'})", button)
        with pytest.raises(ElementClickInterceptedException):
            button.click()
        browser.find_element(By.ID, "bnp_btn_reject").click()
        assert not browser.find_elements(By.ID, "bnp_container")
        button.click()
        wait_for(partial(has_results, browser, 141), "more results after the button")
        browser.get(url)
        assert not browser.find_elements(By.ID, "bnp_container"), "the answer is remembered"
        assert "bnp_container" in fetch(url).text
