"""Frequent words of other languages that are no words, names or slang in English captions.

Of Indonesian, German, Spanish, Portuguese, French, Italian, Dutch, Polish, Swedish, Turkish, Tagalog and Hindi, without
accents. Detectors cannot tell "tiene prisa" from a name by its letters.
"""

from typing import Final

_WORDS = """
    aan aap abbiamo abend aber abuela adalah adesso agora agua ahora ahorita ainda akin ako aku algo alle alles
    allez allora alltid alors altijd amanha amiga amor anche ancora andare ang ano apa aqui arbeit auch auf
    aujourd aur aussi avec avez avoir avons ayer bagaimana bambino banget bardzo beaucoup bei beim benim beter
    bhai bir bisa bist bonjour bonne bonsoir broer bruder buenas buenos bunu buongiorno byc bylo c'est cabron
    cabrones cachorro caralho cazzo cerveza cette che chez chien claro coisa cok comer comida comiendo comme como
    corazon cosa cosi cuando culo cumpleanos czy daha danke dans dass decir degil deine del della demain dengan
    denken des deze dice dices diese dieser dieses digo din dinero dinheiro dla dobra dobry doch domani donc donde
    dormir dormire dzien dzisiaj ecole een eens efter eine einen einer ela ele eles ella elle elles ellos enfant
    enfants entiendo eres escola escuela eso essa esse esta estamos estan estar estas este estoy etait etes ett
    etwas euer evet faire fait fatto faut fazer feliz femme filha filho foi frere freund freunde gaan gak gato
    gatos geen gegen gehen geht geld gestern gezellig gibi giorno gisteren goed gracias grazie guapo guten guzel
    habe haben hablar hablas hablo hace hacer haciendo hai hain hambre hanno har hatte haus hayir hebben heeft hej
    hermana hermano heute hier hij hija hijo hindi hoe hoeveel hoga hoje hombre homme huis hund ich icin ihre ik
    ikaw ile immer ini inte irmao isso itu iyi j'ai jak jamais jangan jest jestem jestes jetzt jij joder jour jouw
    jullie jutro kadar kaise kalau kalian kamu kann kannst kapag karena karo kasi katze kaya kein keine kenapa
    kiedy kinderen komen komm kommen konnen ktory kunnen kya kyu l'ecole lavoro leche lekker leur leute liebe
    lieber maar mache machen macht mais maison makan maldito manana mangiare mehr mein meine mejor menina menino
    mensen mera merci merda merde mere mereka meri meu mga mich mierda mijn minha mir mirar mnie moeder moet
    moeten moi molto mucha muchas mucho muchos muito mujer mussen musst mutter muy mycket n'est naar nadie nagon
    nahi naman nao nasil navidad neden nel nicht nichts nie niente niet ninos niye noche noches nog noir noire
    noite nosotros nous nuit nunca obrigado och ocksa oder odio oggi ohne olarak ontem ook oraz ouais oui pala
    pelo pendejo pendejos peor perche pero perro perros personne pessoa pessoas petit peu peut peux piu pobre
    porque posso pourquoi proprio przez puede puedes puedo puoi puta putain puto qu'est quand quando quella quelle
    quello quem querer queria quero questa questi questo qui quien quiere quieres quiero ragazza ragazzi ragazzo
    raha sabes sagen sagt sao sapere saya schlecht schon schule schwester scuola sehr sein sekolah sempre seni
    senin senor senora senorita siamo sich sie siempre sila sind siya slecht soeur soldi soll sollte solo som
    sommes sono sont sou soy stronzo sudah suis sus talaga tambien teman temos temps tenemos tengo tenho tera
    teraz tere tidak tidur tiene tienen tienes todo todos toi tomando tomar toujours tout trabajo trabalho travail
    trop tudo tum tumhara tutti tutto twoja tylko uang uma und une unser untuk uomo usted ustedes vai vais vamos
    vandaag varfor varje vater vaya veel verdad veut veux vez vieja viejo voce voglio voor votre vous vriend
    vrienden vuoi vuole waar waarom wala wanneer waren warum weinig weiss weisst wenn werden weten wie wieder wiem
    wij willen wir wird woher wohin wollen wszystko wurde yang zawsze zeggen zijn zur
"""
FOREIGN_WORDS: Final = frozenset(_WORDS.split())
