"""Settings of Mastodon. Defaults and meaning are in `defaults.yaml`."""

from memeloom.configs.fields import Positive, Section


class Mastodon(Section):
    """Settings of Mastodon."""

    servers: tuple[str, ...]
    hashtags: tuple[str, ...]
    languages: tuple[str, ...]
    posts_per_hashtag: Positive
    incremental: bool
