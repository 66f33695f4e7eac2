"""Common English, most frequent words first."""

_WORDS = """
the to you i and a of in is it that for my on me your with be this are not have when so we was just like what at do
all they no if he but get can up from out one how as who people his her don't by i'm she or an about it's now will
time know has think make go them then because why want there their our more good some back us see still need never
really say take only him were new day life got even way had too would than work right tell down please every home
always let these look should off first after going love here could today where been other did school friends year
being before into man well said over oh someone any guy two last yes come give thing next most better years find
those feel game stop play bad long great best thank much help made friend world am through i'll you're didn't can't
that's mom doesn't he's they're isn't won't i've we're let's what's wasn't there's you'll i'd wouldn't couldn't
aren't haven't you've ain't again old ever things wait around keep phone money girl put something used big little
kids house everyone watch nothing night mean actually same teacher food start call anything remember away guys three
trying parents ask class trump president many free week job while news pay days left family under does buy bed sleep
talk stay done hey thought use making minutes dad win end hard real eat found without kid person might girlfriend
both another once since hours getting lot own dog cat against show makes watching internet place also sure doing
nobody such must boy literally try playing comes says believe saying open car happy until whole hate each read
enough hand face part anyone which few gonna head check half yet very may between care its kill die dead turn run
room wrong live movie looking water hope myself lol baby everything taking almost times ready coming maybe birthday
son brother hello women men woman children child black white red blue green small high low young late early far near
full top side word words name number question answer point problem fact story book song music video picture post
joke meme memes funny true false state country government law war party power vote election america american states
united senate congress media truth lie lies lying science doctor hospital vaccine virus health body heart mind eyes
hands feet hair door window street city town road store shop market company business office boss computer screen
online page site app games player team ball match race winner loser lose lost won fight gun guns police officer army
soldier king queen prince god jesus christ church holy heaven hell soul faith religion pray bless peace dream
morning afternoon evening tonight tomorrow yesterday month hour minute second moment summer winter spring weekend
monday tuesday wednesday thursday friday saturday sunday january february march april june july august september
october november december christmas halloween easter four five six seven eight nine ten hundred thousand million
billion percent dollar dollars cents price cost cheap told tells telling asked asks gave gives given goes went gone
came become became seen saw sees seems looks looked felt feels thinks thinking knew knows known wants wanted wanting
needs needed tried tries called calls calling leave leaves leaving kept keeps keeping brought bring brings bought
sold sell selling paid pays paying spend spent save saved saving write wrote written reading learn learned teach
taught study test exam grade grades homework college student students teachers sit sitting stand standing walk
walking running talking speak speaking spoke hear heard listen listening watched plays played working worked works
living lived lives died dying killed killing eating ate drink drinking coffee beer wine milk bread cheese pizza
chicken meat fish egg eggs apple cake mother father sister daughter wife husband parent boys girls ladies gentlemen
sir dude bro buddy folks everybody somebody himself herself itself themselves yourself ourselves mine yours ours
theirs whose whom else instead though although however whether either neither during within above below behind
beside across along among toward towards upon onto per via etc okay ok yeah yep nope wow haha omg wtf thanks sorry
welcome goodbye bye able nice cool cute pretty ugly beautiful smart stupid dumb crazy weird strange easy simple
different important special normal perfect favorite serious afraid scared angry mad sad tired sick hungry alone
bored busy rich poor strong weak fast slow hot cold warm dark light heavy clean dirty fresh huge tiny short tall
wide deep dry wet finally suddenly probably usually sometimes often already soon later ago forever together apart
exactly especially totally seriously basically simply quickly clearly obviously apparently unless wish guess hold
move moved change changed happen happens happened matter matters means meant seem follow following share shared send
sent sending cut hit broke broken break fall fell fallen drop pick picked pull push throw catch caught carry drive
driving drove ride fly flying fix build built create created set sets wear wearing wore dress shirt shoes pants hat
sense idea plan reason kind sort type form line list level case group members member community public private
general major local national human humans rights freedom history future past present century age born death earth
sun moon star stars sky space sea ocean river mountain tree trees forest flower garden animal animals bird horse cow
pig bear wolf lion email message text texts chat twitter facebook instagram youtube google reddit netflix tiktok
windows android iphone xbox playstation minecraft fortnite forget forgot inside outside anyway whatever wherever
whenever cannot goodnight somewhere anywhere everywhere nowhere somehow overall breakfast classroom teamwork
boyfriend grandma grandpa anybody handsome season manage notice candle target carpet cartoon island therefore
otherwise altogether justice practice surface
"""

COMMON_WORDS = tuple(_WORDS.split())
