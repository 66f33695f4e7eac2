"""Tiers of profanity: better-profanity's entries, and words missing from its list.

``slur`` degrades people for who they are; ``mild`` is acceptable on early-evening television (damn, crap, ass, wtf);
``strong`` is the rest, except `dataset.steps.ordinary`. The additions come from reading captions of a meme site.
"""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Final, Literal, TypeAlias

from memeloom.dataset.steps.ordinary import ORDINARY

Tier: TypeAlias = Literal["mild", "strong", "slur"]
# Ascending severity.
TIERS: Final[tuple[Tier, ...]] = ("mild", "strong", "slur")

# A stem and its endings: `stem: ending ending`; `-` is the stem itself, an underscore a space.
_MILD = """
    arse: - s d hat hats
    ass: - es ed hat hats clown clowns load loads wipe wipes
    badass: - es
    bad_ass: -
    anus: - es
    boob: - s ie ies
    booob: s
    boooob: s
    booooob: s
    booooooob: s
    bewb: s
    bastard: - s
    basterd: - s
    bisch: -
    bish: - es
    blow_me: -
    bollock: - s
    bollox: -
    bone: r rs d
    bugger: - s ed
    bum_hole: -
    butthole: - s
    crap: - s py pier piest ped ping per tastic tacular ton load
    bullcrap: -
    holy_crap: -
    damn: - s ed it ation
    dam: mit mn
    dami: t
    damm: - ed
    dammi: t
    god_damn: - ed it
    god-dam: - ned
    goddam: - n ned nit mit
    godam: nit mit
    dong: - s
    dork: face
    doosh: -
    douch: e3 ey y
    douche: - s y bag bags bag's canoe
    douche_bag: - s
    duche: - bag
    dumass: - es
    dumbass: - es ery
    dumb_ass: - es
    dumdass: -
    dipass: -
    effing: -
    eff_off: -
    erection: - s
    fanny: -
    fatass: - es
    fat_ass: - es
    feck: - er ing
    ffs: -
    fml: -
    fook: - er
    frigg: - a
    g-spot: -
    gspot: -
    fubar: -
    fugly: -
    gtfo: -
    hard-on: - s
    hardon: - s
    hentai: -
    hobag: -
    hoe: - s
    hooker: - s
    horn: y iest ier
    hussy: -
    inbred: -
    jackass: - es
    jack_ass: - es
    jackhole: -
    lardass: -
    lmfao: -
    lube: -
    mafugly: -
    milf: - s
    mofo: - s
    mo-fo: -
    muther: -
    nads: -
    nad: -
    nob: - head
    numbnuts: -
    nutsack: - s
    ballsack: - s
    omfg: -
    orgasm: - s ic
    penis: - es
    piss: - ed es er ers in ing y off
    pissed: _off
    piss-off: -
    porn: - o os hub star stars
    pornograph: y ic
    pube: - s
    pubic: -
    punkass: -
    queef: - s
    schiznit: -
    shiznit: -
    shiz: -
    shag: - ger gin ging ged
    sissy: -
    skank: - s y
    smartass: - es
    smart_ass: - es
    smut: - ty
    spunk: -
    stfu: -
    testes: -
    testis: -
    testicles: -
    thot: - s ty
    thott: -
    tit: - s
    titt: y ies
    tosser: - s
    turd: - s
    libturd: - s
    vag: -
    vagina: - s
    wtf: -
    xxx: -
    badonkadonk: -
    booty_call: -
    scrotum: -
    semen: -
    threesome: -
    labia: -
    glans: -
    foreskin: -
    hymen: -
    phallic: -
    clitoris: -
    vulva: -
    penile: -
    penial: -
    teste: -
    testee: -
    testical: -
    erotic: -
    bondage: -
    kooch: -
    nooky: -
    floozy: -
    fondle: -
    fisty: -
    busty: -
    azz: - es
"""
_STRONG = """
    a-hole: - s
    ahole: - s
    arsehole: - s
    asshole: - s ish ry
    ass_hole: - s
    asslicker: - s
    bich: - es
    biatch: - es
    beatch: -
    beotch: -
    biotch: -
    bitch: - es ed ing in y ass
    son_of_a: _bitch _gun_bitch
    sonofabitch: -
    blowjob: - s
    blow_job: - s
    clusterfuck: - s
    cocksucker: - s
    cum: - med min shot shots
    cunni: lingus
    cunt: - s y ing
    dick: - s less head heads ish wad wads bag face sucker
    dogshit: -
    dildo: - s
    fck: - n in ing ed er ers
    fcku: -
    fkin: - g
    fking: -
    fkn: -
    fuc: - k kkk kin
    fuck: - s ed er ers ing in n y ery boy boys boi you off this that up tard tards wit
    fu: _ck
    f: _uck
    fuckn: -
    fuk: - s n in ing en ed er ers u
    fuken: -
    mindfuck: - s ed
    unfuck: -
    fux: -
    horseshit: -
    apeshit: -
    batshit: -
    bullshit: - s ing ted ter ters
    bull_shit: -
    chickenshit: -
    dipshit: - s
    dip_shit: - s
    jizz: - ed ing es
    motherfuck: - er ers in ing
    motherfuckin: -
    muthafucka: - s
    mothafucka: - s
    phuck: - ed ing
    prick: - s
    pussie: - s
    pussy: - s
    rapist: - s
    rape: - d s r
    raping: -
    sheit: -
    schit: -
    shit: - s ty ties tier tiest ted ter ters ting tin less load loads storm storms post posts posting poster posted
    shit: show shows bag bags stain stains box hole holes head heads face faced house stick sticks lord lords talk
    shit: talking ton tons e
    shite: - s
    shity: -
    skullfuck: -
    slut: - s ty tier tiest ting
    twat: - s
    wank: - a as ed er ers ing stain
    whore: - s d
    whoring: -
"""
_SLUR = """
    beaner: - s
    chink: - s y
    coon: - s
    darkie: - s
    darky: -
    dyke: - s
    fag: - s g gs gy got gots git gitt ged ging
    fagget: - s
    fagot: - s
    faig: - t
    fudgepacker: - s
    gaylord: - s
    ghay: -
    ghey: -
    golliwog: - s
    gook: - s
    gyppo: - s
    hebe: - s
    heeb: - s
    homo: - s
    honky: -
    honkies: -
    injun: - s
    jap: - s
    jigaboo: - s
    kike: - s
    kyke: - s
    kraut: - s
    lesbo: - s
    lez: bo bos zie zies zy bian bians
    mongoloid: - s
    moolie: - s
    negro: - s es id
    nig: - s g ga gah gas gaz ger gers gur gurs guh guhs let nog nogs
    niga: - s z h
    niggress: -
    paki: - s
    pikey: - s
    pillowbiter: - s
    polack: - s
    porch_monkey: - s
    queero: - s
    raghead: - s
    r-tard: - s
    retard: - s ed edly ation
    retardo: -
    reetard: - ed
    ritard: - ed
    rtard: - s
    fucktard: - s
    libtard: - s
    sand_nigger: - s
    shemale: - s
    she_male: - s
    spac: - s
    spastic: - s
    spaz: - z
    spic: - s
    spick: - s
    spik: - s
    tard: - s
    towelhead: - s
    towel_head: - s
    tranny: -
    trannies: -
    wetback: - s
    whitey: -
    wigger: - s
    wop: - s
"""

# Letters for the signs in some entries of the list.
_PLAIN: Final = str.maketrans("@431!05$7+", "aaeiiosstt")
# Phrases in which a word of the tiers is harmless.
_INNOCENT = """
    back_hoe blue_tit boob_tube chink_in_the chinks_in cock_a_doodle cock-a-doodle cum_laude dick_cheney dick_clark
    dick_dastardly dick_grayson dick_tracy dick_van_dyke ding_dong fanny_pack garden_hoe great_tits homo_erectus
    homo_sapien homo_sapiens jawbone_of_an_ass john_lee_hooker maine_coon maine_coons moby_dick philip_k_dick pin_prick
    pin_pricks rape_seed spic_and_span spick_and_span spotted_dick tit_for_tat tj_hooker t_j_hooker van_dyke
    weather_cock
"""
INNOCENT: Final = tuple(phrase.replace("_", " ") for phrase in _INNOCENT.split())


def read_tiers() -> dict[str, Tier]:
    """Return every word in a tier, in lower case, the worst tiers first."""
    tiers: dict[str, Tier] = {}
    written: tuple[tuple[Tier, str], ...] = (("slur", _SLUR), ("strong", _STRONG), ("mild", _MILD))
    for tier, words in written:
        for word in _expanded(words):
            tiers.setdefault(word, tier)
    for entry in read_list():
        if entry not in ORDINARY and _plain(entry) not in tiers:
            tiers.setdefault(entry, "strong")
    return dict(sorted(tiers.items(), key=lambda found: (-TIERS.index(found[1]), found[0])))


def read_spellings() -> dict[str, str]:
    """Return the entries of better-profanity's list that disguise another word ("sh1t", "f_u_c_k"), with that word."""
    tiers = read_tiers()
    return {entry: plain for entry in read_list() if entry not in tiers and (plain := _plain(entry)) in tiers}


def read_list() -> Iterator[str]:
    """Return better-profanity's entries in lower case."""
    text = files("better_profanity").joinpath("profanity_wordlist.txt").read_text(encoding="utf-8")
    return (entry for line in text.splitlines() if (entry := line.strip().rstrip("*").lower()))


def _plain(entry: str) -> str:
    return re.sub(r"[^a-z0-9 ]", "", entry.translate(_PLAIN))


def _expanded(written: str) -> Iterator[str]:
    for line in written.split("\n"):
        stem, _, endings = line.strip().partition(":")
        for ending in endings.split():
            yield (stem if ending == "-" else stem + ending).replace("_", " ")
