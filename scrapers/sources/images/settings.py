"""Settings of the image searches and their browsers. Defaults and meaning are in `defaults.yaml`."""

from typing import Literal

from memeloom.configs.fields import Positive, Seconds, Section, WebAddress


class ImageSearch(Section):
    """Settings of the image searches and their browsers."""

    engines: tuple[Literal["bing", "google"], ...]
    bing: WebAddress
    google: WebAddress
    queries: tuple[str, ...]
    template_queries: bool
    templates: Positive
    results_per_query: Positive
    browser: str | None
    driver: str | None
    browsers: Positive
    page_seconds: Seconds
    pages_per_browser: Positive
    browser_memory_mb: Positive
