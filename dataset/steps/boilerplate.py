"""Remove watermarks of sites, apps and authors: "imgflip.com", "made w/ mematic", "@somebody", "https://…".

A watermark is removed if it fills a box or ends one. A caption about a site ("imgflip is down") is kept. The rules come
from reading 260,000 captions of a meme site.
"""

import re
from typing import Final

from memeloom.dataset.steps.caption import Caption, Outcome
from memeloom.engine.steps import Drop, Keep

# Sites and apps that watermark pictures. Their addresses are watermarks; their names only after "made with".
_SITES: Final = (
    r"img\s?flip|meme\s?generator|quick\s?meme|9gag|mematic|meme\s?center|make\s?a\s?meme|live\s?meme|we\s?know\s?memes"
    r"|i\s?funny|kapwing|memedroid|memebase|cheezburger|i\s?can\s?has\s?cheezburger|meme\s?crunch|diylol"
    r"|ragegenerator|memegen|picmonkey|giphy|tiktok"
)
_ENDING: Final = r"\.(?:com|net|org|co|mobi|me)"
_MADE: Final = r"(?:made|created|generated|captioned)\s+(?:with|w/|on|in|using|by|at|via)|made\s+w/|via|powered\s+by"
_PATH: Final = r"(?:/\S*)?"
_MARK: Final = (
    # "imgflip.com", "https://imgflip.com/i/abc", "via 9gag.com"
    rf"(?:(?:{_MADE})\s+)?(?:https?:/*)?(?:www\.)?(?:{_SITES}){_ENDING}\b{_PATH}"
    # "made with mematic", "made w/ imgflip meme generator"
    rf"|(?:{_MADE})\s+(?:{_SITES})(?:\s+(?:meme\s+generator|app))?"
)
# A page: with a scheme, www or a path.
_PAGE: Final = r"https?:/+\S+|www\.\w[\w-]*\.\w\S*|[\w-]+(?:\.[\w-]+)*\.(?:com|net|org|co|be|ly|gg|me|tv|io)/\S+"
# "@name", "ig: @name", "@name on ig", "u/name"
_NETWORK: Final = r"ig|insta|instagram|twitter|tiktok|fb|facebook|snapchat|snap|yt|youtube"
_NOBODY: Final = r"(?!(?:all|everybody|everyone|here|home|onsite|work)\b)"
_CREDIT: Final = rf"(?:follow|credits?(?:\s+to)?|cred|by|via|from|source|{_NETWORK})\s*:?\s*"
_HANDLE: Final = (
    rf"(?:{_CREDIT})?@{_NOBODY}[a-z_][\w.]{{2,}}(?:\s+on\s+(?:{_NETWORK}))?|(?:posted\s+by\s+)?u/[\w-]{{3,}}"
)
_RIGHTS: Final = r"(?:©|\(c\)\s*\d{4}|copyright\s*(?:©|\(c\)|\d{4})).*"
# Atomic groups, so that hostile input takes linear time.
_ANY: Final = rf"(?>{_MARK}|{_PAGE}|{_HANDLE})"
_ALONE = re.compile(rf"\W*{_ANY}(?:\W*\s\W*{_ANY})*\W*|{_RIGHTS}", re.IGNORECASE | re.DOTALL)
_AT_END = re.compile(rf"(?:^|(?<=\s)){_ANY}[\s.!|]*$", re.IGNORECASE)
# A bare address before another box may be the caption's subject.
_LABEL = re.compile(rf"(?:www\.)?(?:{_SITES}){_ENDING}/?", re.IGNORECASE)
_IN_THE_MIDDLE = re.compile(rf"(?<![\w@.-])(?:{_PAGE})", re.IGNORECASE)
# After these the address is part of the sentence: "on imgflip.com", "thanks to @name".
_TALK = re.compile(
    r"(?:(?<!\S)(?:a|an|and|are|around|at|be|been|by|called?|check|find|for|found|from|get|goto|hate|have|he|hey|hi|i|in|into"
    r"|is|it|it's|its|join|know|leave|like|love|me|memes?|my|named|new|of|off|on|onto|or|out|she|spam|spamming|tell|than"
    r"|that|the|they|this|to|typed?|use|using|via|visit|was|we|were|when|who|why|with|without|you|your)|[,:])$",
    re.IGNORECASE,
)
# Every watermark contains one of these.
MARK_HINTS: Final = (
    "@", "/", ".co", ".net", ".org", ".m", "www.", "©", "copyright", "(c)", "made ", "via ", "powered by", "d with ",
)  # fmt: skip
_SENTENCE_ENDS = (".", "!", "?", "…", '"', "”", ")", "*")


def strip_boilerplate(caption: Caption) -> Outcome:
    """Remove watermarks from the ends of boxes, and boxes that hold nothing else.

    Drop ``boilerplate``: nothing else is left, or a page's address is inside a text.
    """
    text = " ".join(caption.boxes).lower()
    if not any(hint in text for hint in MARK_HINTS):
        return Keep(caption)
    last = max(at for at, box in enumerate(caption.boxes) if box.strip())
    boxes = tuple(
        [
            box if at < last and _LABEL.fullmatch(box.strip()) else _without_marks(box)
            for at, box in enumerate(caption.boxes)
        ]
    )
    if any(map(_IN_THE_MIDDLE.search, boxes)):
        return Drop("boilerplate")
    if boxes == caption.boxes:
        return Keep(caption)
    return Keep(caption.with_boxes(boxes)) if any(map(str.strip, boxes)) else Drop("boilerplate")


def _without_marks(box: str) -> str:
    if _ALONE.fullmatch(box.strip()):
        return ""
    while mark := _AT_END.search(box):
        before = box[: mark.start()].rstrip(" \t\n|-–—~•·")
        # Keep a watermark that is part of a sentence; a bare name is, unless the sentence has ended.
        bare = _LABEL.fullmatch(mark.group().strip(" .!|"))
        if _TALK.search(before) or (bare and not before.endswith(_SENTENCE_ENDS)):
            break
        box = before
    return box
