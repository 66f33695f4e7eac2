"""`memeloom demo --serve`: its settings file, and the page of what was posted."""

from pathlib import Path

import httpx2

from memeloom.configs.load import load_config
from memeloom.demo.internet import Internet
from memeloom.demo.publishing import Networks
from memeloom.demo.publishing_mastodon import MastodonServer
from memeloom.demo.publishing_page import PATH
from memeloom.demo.serve_only import write_settings
from memeloom.serve.publishing.accounts import accounts_of

JPEG = b"\xff\xd8\xff\xe0 not much of a picture"


def test_the_settings_file_points_at_the_sites_and_at_an_account(tmp_path: Path) -> None:
    path = tmp_path / "internet.yaml"
    with Internet(memes=12, quick=True) as internet, Networks() as networks:
        write_settings(path, internet, networks)
        environment = {"MASTODON_TOKEN": networks.mastodon.token}
        config = load_config(path, environment=environment)
        pointed = load_config(path, internet.settings, environment)
        (account,) = accounts_of(config)
        assert account.server == networks.addresses["mastodon"]
        assert account.token.get_secret_value() == networks.mastodon.token
    assert config.crawl == pointed.crawl
    assert "mastodon-secret" not in path.read_text()


def test_posts_are_shown_and_liked_on_the_page_of_the_account() -> None:
    server = MastodonServer(pictures={})
    with Networks(mastodon=server) as networks, httpx2.Client(base_url=networks.addresses["mastodon"]) as visitor:
        headers = {"Authorization": f"Bearer {server.token}"}
        media = visitor.post("/api/v2/media", files={"file": ("a.jpg", JPEG, "image/jpeg")}, headers=headers).json()
        sent = {"media_ids[]": [media["id"]]}
        status = visitor.post("/api/v1/statuses", data=sent, headers=headers).json()["id"]
        assert visitor.get(media["url"]).content == JPEG
        assert "♥ 0" in visitor.get(PATH).text
        assert visitor.post(f"{PATH}/{status}/favourite", follow_redirects=True).text.count("♥ 1") == 1
        assert visitor.post(f"{PATH}/none/favourite").status_code == 404
        assert len(visitor.get(f"/api/v1/statuses/{status}/favourited_by", headers=headers).json()) == 1
