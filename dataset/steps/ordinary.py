"""Entries of better-profanity's list that are not profanity and belong to no tier.

Of its 835 entries these are everyday words, identities, body, health, drugs, history and crime. Users can drop any of
them with `dataset.profanity_deny`.
"""

_EVERYDAY = """
    bimbo crotch cow_girl cow_girls cowgirl cowgirls dink dinks doofus dopey drunk dummy enlargement erect facial fart
    fat flange foobar freex god guido hell herp hoar hoare homey hooter hooters hump humped jerk jerked kinky knob lech
    len lmao loin loins lust lusting lusty mams massa maxi moron muff nappy niggle nimrod ninny nude nudes omg organ
    paddy pantie panties panty pastie pasty pawn pee peepee perversion pimp playboy pollock poop pot potty prig pron
    prude punky puss quicky racy raunch rectus revue rum rump ruski sandbar scantily schizo screw screwed screwing scum
    seaman seamen seduce sleaze sleazy slope snatch sniper snuff souse soused steamy stiffy stoned strip strip_club
    stripclub stroke stupid suck sucked sucking tawdry thrust tinkle titi toots tramp trashy tush ugly undies unwed
    vixen voyeur vulgar wad wang wazoo wedgie weenie weewee weiner weirdo wench whiz willies willy woody xx yury
"""
_PEOPLE = "arian aryan gae gai gay gays gey gringo klan lesbians pinko queer queers transsexual virgin"
_BODIES = """
    breasts gonad gonads herpes hiv leper lez menses menstruate menstruation nipple nipples naked oral orally ovary ovum
    ovums penetrate penetration pms rectal rectum sex sexual sperm tampon teat testicle urinal urine uterus vomit womb
"""
_DRINK_AND_DRUGS = """
    extacy extasy ganja hemp heroin hooch hookah hootch junkie junky meth opiate opium pcp peyote reefer toke valium
    viagra vodka weed
"""
_HISTORY_AND_CRIME = """
    hitler kill kkk masochist murder napalm nazi nazism prostitute reich sadism sadist slave sodom thug uzi
"""


def entries_of(text: str) -> tuple[str, ...]:
    """Return the entries in `text`, separated by whitespace; an underscore is a space within one."""
    return tuple(entry.replace("_", " ") for entry in text.split())


ORDINARY = frozenset(entries_of(" ".join([_EVERYDAY, _PEOPLE, _BODIES, _DRINK_AND_DRUGS, _HISTORY_AND_CRIME])))
