"""Entries of better-profanity's list that are fine by default.

Its 835 entries mix insults with ordinary words. Those that follow are not dropped: everyday words and mild
exclamations, who people are, bodies and health, drink and drugs, history and crime. A user who wants one
dropped after all names it in `dataset.profanity_deny`.
"""

_EVERYDAY = """
    bimbo cow_girl cow_girls cowgirl cowgirls crap crotch damn dink dinks doofus dopey drunk dummy enlargement
    erect facial fart fat flange foobar god god-dam god-damned godamn goddam goddammit goddamn goddamned guido
    hell herp hoar hoare homey hooter hooters hump humped jerk jerked kinky knob len lmao loin loins lust
    lusting lusty mams maxi moron muff nappy niggle nimrod ninny omg organ paddy pastie pasty pawn pee peepee
    perversion pimp playboy pollock poop pot potty prig prude punky puss racy revue rum rump sandbar screw
    screwed screwing scum seaman seamen seduce sleaze sleazy slope snatch sniper snuff souse soused steamy
    stiffy stoned strip strip_club stripclub stroke stupid suck sucked sucking tawdry thrust tinkle titi toots
    tramp trashy tush ugly undies unwed vixen voyeur vulgar wad wang wedgie weenie weewee weiner weirdo wench
    whiz willies willy woody xx yury
"""
_PEOPLE = "gay gays lesbians queer queers transsexual virgin"
_BODIES = """
    breasts gonad gonads herpes hiv leper menses menstruate menstruation nipple nipples naked oral orally ovary ovum
    ovums penetrate penetration pms rectum sex sexual sperm tampon teat testicle urinal urine uterus vomit womb
"""
_DRINK_AND_DRUGS = """
    ganja hemp heroin hooch hookah hootch junkie junky meth opiate opium pcp peyote reefer toke valium viagra vodka weed
"""
_HISTORY_AND_CRIME = """
    hitler kill masochist murder napalm nazi nazism prostitute reich sadism sadist slave thug uzi
"""

ORDINARY = frozenset(
    entry.replace("_", " ")
    for group in (_EVERYDAY, _PEOPLE, _BODIES, _DRINK_AND_DRUGS, _HISTORY_AND_CRIME)
    for entry in group.split()
)
