"""Real templates that show the same picture, as judged by eye.

Imgflip and memegen share many templates under other names, sizes and crops; either is a correct answer. Every pair that
one of our measures calls similar was checked; those that are one picture, or one within the other, are listed. Pictures
that only resemble each other, such as the penguins' three backgrounds, are different templates.
"""

ALIKE = (
    ("imgflip/Aaaaand-Its-Gone.jpg", "memegen/gone.jpg"),
    ("imgflip/Aint-Nobody-Got-Time-For-That.jpg", "memegen/aint-got-time.jpg"),
    ("imgflip/American-Chopper-Argument.jpg", "memegen/chair.jpg"),
    ("imgflip/Ancient-Aliens.jpg", "memegen/aag.jpg"),
    ("imgflip/Bad-Luck-Brian.jpg", "memegen/blb.jpg"),
    ("imgflip/Brace-Yourselves-X-is-Coming.jpg", "memegen/winter.jpg"),
    ("imgflip/But-Thats-None-Of-My-Business.jpg", "memegen/kermit.jpg"),
    ("imgflip/Captain-Picard-Facepalm.jpg", "memegen/facepalm.jpg"),
    ("imgflip/Confession-Bear.jpg", "memegen/cb.jpg"),
    ("imgflip/Conspiracy-Keanu.jpg", "memegen/keanu.jpg"),
    ("imgflip/Creepy-Condescending-Wonka.jpg", "memegen/wonka.jpg"),
    ("imgflip/Distracted-Boyfriend.jpg", "memegen/db.jpg"),
    ("imgflip/Expanding-Brain.jpg", "memegen/gb.jpg"),
    ("imgflip/Hide-the-Pain-Harold.jpg", "memegen/harold.jpg"),
    ("imgflip/I-Should-Buy-A-Boat-Cat.jpg", "memegen/boat.jpg"),
    ("imgflip/Inhaling-Seagull.jpg", "memegen/seagull.jpg"),
    ("imgflip/Laughing-Men-In-Suits.jpg", "memegen/atis.jpg"),
    ("imgflip/Left-Exit-12-Off-Ramp.jpg", "memegen/exit.jpg"),
    ("imgflip/Look-At-Me.jpg", "memegen/captain.jpg"),
    ("imgflip/Matrix-Morpheus.jpg", "memegen/morpheus.jpg"),
    ("imgflip/Mocking-Spongebob.jpg", "memegen/spongebob.jpg"),
    ("imgflip/One-Does-Not-Simply.jpg", "memegen/mordor.jpg"),
    ("imgflip/Oprah-You-Get-A.jpg", "memegen/oprah.jpg"),
    ("imgflip/Philosoraptor.jpg", "memegen/philosoraptor.jpg"),
    ("imgflip/Running-Away-Balloon.jpg", "memegen/balloon.jpg"),
    ("imgflip/Scumbag-Steve.jpg", "memegen/ss.jpg"),
    ("imgflip/That-Would-Be-Great.jpg", "memegen/officespace.jpg"),
    ("imgflip/The-Most-Interesting-Man-In-The-World.jpg", "memegen/interesting.jpg"),
    ("imgflip/Third-World-Skeptical-Kid.jpg", "memegen/sk.jpg"),
    ("imgflip/Who-Killed-Hannibal.jpg", "memegen/wkh.jpg"),
    ("imgflip/X-All-The-Y.jpg", "memegen/xy.jpg"),
    ("imgflip/Y-U-No.jpg", "memegen/yuno.jpg"),
    ("imgflip/Yall-Got-Any-More-Of-That.jpg", "memegen/yallgot.jpg"),
)

# A uniform colour cannot be recognised.
NO_PICTURE = frozenset({"memegen/_error.jpg"})

# Real memes on one of the templates, or with one as a panel, also judged by eye.
KNOWN_MEMES = frozenset({
    "176_image.jpg", "178_image_batch_2.jpg", "184_image_batch_2.jpg", "210_image_batch_2.jpg", "365_image_batch_2.jpg",
    "39_image_batch_2.jpg", "416_image_batch_2.jpg", "436_image_batch_2.jpg", "599_image_batch_2.jpg",
    "622_image_batch_2.jpg", "659_image_batch_2.jpg", "780_image_batch_2.jpg", "985_image_batch_2.jpg", "meme_131.jpg",
})  # fmt: skip
