"""Frequent words of other languages that are no words, names or slang in English captions.

Of Indonesian, German, Spanish, Portuguese, French, Italian, Dutch, Polish, Swedish, Turkish, Tagalog and Hindi, without
accents. Detectors cannot tell "tiene prisa" from a name by its letters.
"""

from typing import Final

_WORDS = """
    aan aap aber agora ahora ainda akin ako aku algo allora alltid alors altijd anche ancora ang ano apa aqui auch aur
    aussi avec banget bardzo bei bhai bir bisa bist bonjour buenas buenos cette che coisa cok comme como cosa cosi
    cuando czy daha dans dass degil deine del della dengan des deze dice din dla donde een eens efter eine einen einer
    ela ele eles ella elle ellos eres eso essa esse esta estas este estoy ett evet fait fatto foi gak geen gibi goed
    grazie habe haben hace hacer hai hain har hebben heeft hij hindi ho hoe hoga ich icin ik ikaw ile immer ini inte
    isso itu iyi jak jangan jest jetzt jij jour jullie kadar kaise kalau kamu kann kapag karena karo kasi kaya kein
    keine kiedy kya kyu maar mein meine mejor mera merci mere meri meu mga mich mijn minha mir mnie moet molto mucho
    muito muy naar nadie nahi naman nao nasil neden nel nicht nie niente niet noche nog nous nunca obrigado och oder
    olarak ook oraz pala pelo perche piu porque pourquoi przez quand quando quem questa questo qui quien quiero raha sao
    saya schon sehr sempre seni sich sie siempre sila sind siya solo som sono sont sou soy sudah suis sus talaga tengo
    tera tere tidak tiene tienes todo todos toi toujours tout tudo tum tumhara tutti tutto tylko uma und une untuk vai
    varfor voce voor vous waarom wala warum wenn wie wiem wir wird yang zijn
"""
FOREIGN_WORDS: Final = frozenset(_WORDS.split())
