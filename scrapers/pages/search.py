"""What image searches have in common: results, and the buttons that stand between us and them."""

from collections.abc import Callable
from dataclasses import dataclass

# What a consent screen offers, the modest answer first; in the languages that such screens are met in.
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
    """One result: the picture, the page that it stands on with its title, and the search's own small copy."""

    image_url: str
    page_url: str | None = None
    title: str | None = None
    thumbnail_url: str | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """One image search: where it is asked, what its page looks like, and how that is read.

    result: selector of one result. more: of the button that loads further ones. consent: of the buttons that
    close a consent screen, best first; both kinds of buttons are also known by `MORE_WORDS` and `CONSENT_WORDS`.
    hover: of what shows its address only while the pointer rests on it, if anything.
    search: the address of a query, from the address of the site. read: the results of a page (html, url);
    it raises LayoutChanged.
    """

    name: str
    result: str
    more: tuple[str, ...]
    consent: tuple[str, ...]
    hover: str | None
    search: Callable[[str, str], str]
    read: Callable[[str, str], tuple[FoundImage, ...]]


def is_web_address(value: object) -> bool:
    """Whether `value` is a text that begins as an http or https address does."""
    return isinstance(value, str) and value.startswith(("http://", "https://"))
