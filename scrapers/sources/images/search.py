"""Common to all image searches: results, consent screens and buttons that load more."""

from collections.abc import Callable
from dataclasses import dataclass

# Buttons of consent screens, refusals first, in the languages observed.
_REFUSE = (
    "reject all", "decline all", "reject", "alle ablehnen", "ablehnen", "tout refuser", "refuser", "rechazar todo",
    "rechazar", "rifiuta tutto", "rifiuta", "rejeitar tudo", "rejeitar", "alles afwijzen", "weigeren",
    "odrzuć wszystko", "odrzuć", "avvisa alla", "afvis alle", "avvis alle", "hylkää kaikki", "odmítnout vše",
    "respinge tot", "απόρριψη όλων", "tümünü reddet", "отклонить все", "すべて拒否", "모두 거부",
    "全部拒绝", "全部拒絕",
)  # fmt: skip
_ACCEPT = (
    "accept all", "i agree", "accept", "alle akzeptieren", "akzeptieren", "ich stimme zu", "tout accepter", "accepter",
    "j'accepte", "aceptar todo", "aceptar", "accetta tutto", "accetta", "aceitar tudo", "aceitar", "alles accepteren",
    "accepteren", "zaakceptuj wszystko", "zaakceptuj", "godkänn alla", "accepter alle", "godta alle",
    "hyväksy kaikki", "přijmout vše", "acceptă tot", "αποδοχή όλων", "tümünü kabul et", "принять все",
    "すべて同意", "すべて承認", "모두 동의", "全部接受",
)  # fmt: skip
CONSENT_WORDS = _REFUSE + _ACCEPT
MORE_WORDS = (
    "show more results", "see more results", "more results", "see more images", "see more anyway", "see more",
    "mehr ergebnisse anzeigen", "weitere ergebnisse ansehen", "weitere ergebnisse", "plus de résultats",
    "afficher plus de résultats", "mostrar más resultados", "más resultados", "mostra altri risultati",
    "altri risultati", "mostrar mais resultados", "mais resultados", "meer resultaten weergeven", "meer resultaten",
    "pokaż więcej wyników", "więcej wyników", "показать больше результатов", "другие результаты",
    "もっと見る", "さらに表示",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FoundImage:
    """One result: the picture, its page, its title, and the search's thumbnail."""

    image_url: str
    page_url: str | None = None
    title: str | None = None
    thumbnail_url: str | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """One image search: URLs, selectors and parser.

    Attributes:
        result: selector of one result.
        more: selectors of the button that loads more; `MORE_WORDS` are searched too.
        consent: selectors of the buttons that close a consent screen, best first; `CONSENT_WORDS` are searched too.
        hover: selector of the elements that get their URL only on hover, if any.
        search: returns the URL of a query (site URL, query).
        read: returns the results of a page (html, url). Raises LayoutChanged.
    """

    name: str
    result: str
    more: tuple[str, ...]
    consent: tuple[str, ...]
    hover: str | None
    search: Callable[[str, str], str]
    read: Callable[[str, str], tuple[FoundImage, ...]]


def is_web_address(value: object) -> bool:
    """Return whether `value` is a string that starts like an http or https URL."""
    return isinstance(value, str) and value.startswith(("http://", "https://"))
