"""The miniature Google: consent first, results in the page's scripts, more of them in a browser that scrolls."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from memeloom.demo.internet import Internet

Fetch: TypeAlias = Callable[..., Any]
COOKIE = {"Cookie": "SOCS=CAESHAgBEhIaAB"}
TILES = "#islrg div[data-docid]"


def records(html: str) -> list[list[Any]]:
    """The results in the page's scripts."""
    found = []
    for text in re.findall(r"var m=(\{.*?\});take\(m\);", html):
        found += [value[1] for value in json.loads(text).values()]
    return found


def test_searches_without_the_cookie_redirect_to_the_consent_page(internet: Internet, fetch: Fetch) -> None:
    answer = fetch(internet.url("google", "/search?q=funny+memes&udm=2"))
    assert answer.status == 302
    page = fetch(internet.url("google", answer.headers["location"])).text
    assert "Before you continue to Google" in page
    assert page.count('<form action="/save" method="POST">') == 2
    assert 'aria-label="Accept all"' in page


def test_either_answer_sets_the_cookie_and_redirects_back(internet: Internet, fetch: Fetch) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for reject in ("true", "false"):
        body = f"continue=%2Fsearch%3Fq%3Dcats&set_eom={reject}".encode()
        answer = fetch(internet.url("google", "/save"), method="POST", headers=form, body=body)
        assert (answer.status, answer.headers["location"]) == (303, "/search?q=cats")
        assert answer.headers["set-cookie"].startswith("SOCS=")


def test_the_consent_page_redirects_only_to_its_own_paths(internet: Internet, fetch: Fetch) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b"continue=%2F%2Fexample.org%2F"
    assert fetch(internet.url("google", "/save"), method="POST", headers=form, body=body).headers["location"] == "/"


def test_the_first_results_are_arrays_in_the_page(internet: Internet, fetch: Fetch) -> None:
    html = fetch(internet.url("google", "/search?q=funny+memes&udm=2"), headers=COOKIE).text
    known = {meme.image_url: meme for meme in internet.served() if meme.source == "images"}
    found = records(html)
    assert len(found) == 20
    for record in found:
        _, _, thumbnail, (address, height, width), *_, facts = record
        assert facts["2003"][2] == known[address].page_url
        assert min(height, width) > 100
        assert thumbnail[0].startswith(internet.url("google", "/images?q=tbn:"))
    assert fetch(found[0][2][0]).headers["content-type"] == "image/jpeg"
    assert r"\u003dtbn:" in html, "as the site escapes its scripts"
    assert found[0][3][0] not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_further_results_are_scripts_until_there_are_no_more(internet: Internet, fetch: Fetch) -> None:
    addresses = [record[3][0] for start in range(0, 200, 20) for record in chunk(internet, fetch, start)]
    assert set(addresses) == {meme.image_url for meme in internet.served() if meme.source == "images"}
    assert len(addresses) > len(set(addresses)), "some stand there twice"
    assert not chunk(internet, fetch, 200)


def chunk(internet: Internet, fetch: Fetch, start: int) -> list[list[Any]]:
    url = internet.url("google", f"/search?q=cats&udm=2&asearch=arc&start={start}")
    return records(fetch(url, headers=COOKIE).text)


def test_a_query_is_escaped(internet: Internet, fetch: Fetch) -> None:
    path = "/search?q=%3C/title%3E%3Cscript%3Ealert(1)%3C/script%3E%22&udm=2"
    assert "<script>alert" not in fetch(internet.url("google", path), headers=COOKIE).text


def test_consent_can_be_turned_off(fetch: Fetch) -> None:
    with Internet(memes=12, pictures=10, consent=()) as open_minded:
        assert fetch(open_minded.url("google", "/search?q=cats&udm=2")).status == 200


def test_a_browser_gets_all_results(internet: Internet, browser: Chrome, wait_for: Callable[..., None]) -> None:
    browser.get(internet.url("google", "/search?q=funny+memes&udm=2"))
    browser.find_element(By.CSS_SELECTOR, 'button[aria-label="Reject all"]').click()
    wait_for(partial(has_tiles, browser, 20), "results after the consent")
    button = browser.find_element(By.CSS_SELECTOR, "input.mye4qd")
    for expected in (40, 60, 80):
        assert not button.is_displayed()
        browser.execute_script("window.scrollTo(0, document.documentElement.scrollHeight)")
        wait_for(partial(has_tiles, browser, expected), f"{expected} results after scrolling")
    wait_for(button.is_displayed, "the button after three times of scrolling")
    button.click()
    wait_for(partial(has_tiles, browser, 100), "more results after the button")
    assert len(records(browser.page_source)) == 20, "of later results the page keeps no arrays"
    link = browser.find_elements(By.CSS_SELECTOR, f"{TILES} a")[-1]
    assert link.get_attribute("href") is None
    ActionChains(browser).scroll_to_element(link).move_to_element(link).perform()
    wait_for(lambda: bool(link.get_attribute("href")), "the address under the pointer")
    asked = parse_qs(urlsplit(str(link.get_attribute("href"))).query)
    known = {meme.image_url: meme.page_url for meme in internet.served() if meme.source == "images"}
    assert known[asked["imgurl"][0]] == asked["imgrefurl"][0]


def has_tiles(browser: Chrome, count: int) -> bool:
    return len(browser.find_elements(By.CSS_SELECTOR, TILES)) >= count
