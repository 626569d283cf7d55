"""Short lists of English words for the finders of E_Q and E_A and for the label."""

import re


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(words.split())


WH = word_set("what which who whom whose when where why how")
BE = word_set("is are was were")
# Words that open a yes/no question.
AUXILIARIES = BE | word_set("do does did has have had can could will would should")
# Nouns that ask for a time: "In what year".
TIMES = word_set("year date day month decade century time")
# Words that build sentences and name nothing, contractions included.
FUNCTION = WH | word_set("""
    a an the am is are was were be been being do does did has have had having can could will would
    shall should may might must of in on at by for from to with without into onto over under about
    after before between during since until through against among as than like near upon per via
    within across along around behind beyond toward towards up down off out away and or but nor if
    then so not no yes also too both either neither each every any all some many much more most less
    least other another such same own only just even very ever still yet again there here this that
    these those it its he him his she her hers they them their theirs we us our you your i me my
    mine one ones itself himself herself themselves while because although though whether once
    however currently s t i'm i've i'll i'd you're you've you'll we're we've we'll they're they've
    they'll dont don't doesn't didn't isn't aren't wasn't weren't can't won't hasn't haven't
""")
# Words without a meaning of their own in a question ("what is the name of the ...").
LIGHT = word_set("""
    name names named call called known kind kinds type types sort term word title get gets got
    getting give gave given take takes took taken make makes go goes went gone put located mean
    means associated often usually commonly famously said says tell following according apart
    including new now use list complete identify
""")
# Words that have a capital only at the start of a sentence.
OPENERS = word_set("""
    according following name list complete identify give released born founded located known
    including excluding besides despite featuring being starring based formed situated originally
    today recently first one two three four five six seven eight nine ten
""")
ARTICLES = word_set("a an the")
# Prepositions and conjunctions that begin another phrase.
PREPOSITIONS = word_set("in on at by for from during as since until than that which whom whose per")
# Unlike PREPOSITIONS, the words added here may also open a title.
SEPARATORS = PREPOSITIONS | word_set("""
    after before between under over against who when where while because through throughout within
    without via
""")
# Words that may follow a verb at the end of a phrase: "come out", "take place".
PARTICLES = word_set("out up on off down away over back place about first last again to with being")
# Words that stand beside a name but are no part of it: "what element is often called quicksilver".
PASSIVES = word_set("called named known often usually commonly located said")
NAMING = word_set("list name names kind kinds type types sort")  # before `of`
SUBJECT_PRONOUNS = word_set("i you he she we they")
# Words that hardly occur in a question except in a title.
IN_TITLES = word_set("i i'm i'll i've me my mine don't dont ain't aint wanna gonna let's lets")
# These verbs and TITLE_NOUNS may introduce a title that ends a phrase: "who sings take me home".
TITLE_VERBS = word_set("sing sings sang sung wrote write writes")
# Words after which `in` or `on` introduces a work: "who plays the beast in beauty and the beast".
PERFORMING = word_set("""
    play plays played sing sings sang star stars starred voice voices voiced cast actor actress
    character characters judge judges guy girl host hosts
""")
TITLE_NOUNS = word_set("movie film song show series book novel album poem musical")
# Irregular and short verbs of questions. Regular ones end in -ed.
VERBS = word_set("""
    come comes came play plays played win wins won sing sings sang sung write writes wrote written
    make makes made build builds built born die dies died begin begins began begun start starts
    end ends happen happens hold holds held find found live lives lived leave leaves left become
    becomes became lead leads led fight fought beat run runs ran lose lost wear wears wore speak
    spoken grow grows grew grown sell sold buy bought draw drawn drew rise rose fall fell set
    choose chose chosen drive drove driven meet met marry appear appears occur occurs directs
    produce produces invent discover publish stars voices hosts compete competes represent
    represents contain contains sign signs take takes took release air airs aired owns shot spend
    spent teach taught think thought keep kept send sent bring brought attend attends
""")
NO_VERBS = word_set("united hundred sacred")  # despite their ending
# Words that are verbs in queries (questions in small letters), but may be nouns elsewhere.
QUERY_VERBS = VERBS | word_set("""
    stop open close move go went change join reach sail serve work use stay score return describe
    develop cause pass pay paid turn stand stood sit belong break broke broken hit host star voice
""")
# Small words inside names.
CONNECTORS = word_set("""
    of the de la le les du des der den von van di da del della dos al el y e zu for & bin ibn ter
    af av og och und et
""")
# Small words that join two capitalised words into a title: "Pride and Prejudice", "Face to Face".
JOINING = word_set("and to but with a an no not than")
# Words whose full stop ends no sentence. This list is for questions, the next one for answers.
ABBREVIATIONS = word_set("mr mrs ms dr st jr sr vs prof capt no vol")
ANSWER_ABBREVIATIONS = word_set("""
    st mr mrs ms dr prof rev fr hon gov sen rep gen col maj capt cpt lt sgt adm cmdr pres jr sr bros
    mt ft ave blvd vs vol approx ca pop etc inc ltd co corp op feat dept univ mme mlle wm chas geo
    thos sq jan feb mar apr jun jul aug sep sept oct nov dec
""")
# Ranks and the like that continue a name after a comma: "Adele Capell, Countess of Essex".
RANKS = word_set("""
    jr sr esq king queen prince princess duke duchess earl count countess baron baroness marquess
    marquis marchioness viscount viscountess elector margrave landgrave archduke archduchess emperor
    empress sultan tsar
""")
MONTHS = tuple(
    "january february march april may june july august september october november december".split()
)
# A number in words, cardinal or ordinal: "forty-eight", "one hundred and one", "third".
_ONE = (
    r"(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|forty|hundred|"
    r"thousand|[mb]illion|first|second|third|fifth|ninth|twelfth|(?:thir|fif|six|seven|eigh|nine)"
    r"(?:teen|ty)|fourteen|eighth|\w+(?:teen|tie|four|six|seven|ten|leven|hundred|thousand)th)"
)
_SPELT = rf"(?i:\b(?<!\d\s){_ONE}(?:(?:\s+and)?[\s-]+{_ONE}){{0,8}})"
_DIGITS = r"(?<![\d,.])(?:(?<!\w)[-\u2212])?[$€£]?\d[\d,.]*(?:st|nd|rd|th)?"
# One number spelt both ways: "twelve (12)", "12 (twelve)".
TWO_SPELLINGS = re.compile(
    rf"(?:({_SPELT})\s*[(\[]({_DIGITS})|\b({_DIGITS})\s*[(\[]({_SPELT}))[)\]]"
)
# One number: in digits, in words, or both. "one of" is no number.
NUMBER = re.compile(
    rf"{TWO_SPELLINGS.pattern}|{_DIGITS}(?:\s(?:hundred|thousand|[mb]illion)\b)?|{_SPELT}(?!\sof\b)"
)
# A month in full, or shortened: "September", "Sep", "Sept".
MONTH_NAME = "|".join(rf"{month[:3]}(?:{month[3:]})?" for month in MONTHS) + "|sept"
# "BC", "B.C.E.", also with spaces between the letters.
_ERA = r"(?:\s(?:(?:bc|ad|ce|bp)e?\b|b\.\s?c\.(?:\s?e\.)?|a\.\s?d\.|c\.\s?e\.))"
# A date in any order, a month, a year, a decade or a century; never a part of a longer number.
DATE = re.compile(
    r"(?<!\d,)(?i:\b(?:\d{1,2}(?:st|nd|rd|th)?(?:\s?[–-]\s?|\s(?:to|and)\s))?"
    rf"\b\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?(?:{MONTH_NAME})\b\.?(?:,?\s\d{{3,4}})?"
    rf"|\b(?:{MONTH_NAME})\b\.?\s(?:the\s)?\d{{1,2}}(?:st|nd|rd|th)?\b(?:(?:,?\s|,)\d{{4}})?"
    rf"|\b(?:early |late |mid[- ]?)?(?:{MONTH_NAME})\b(?:\s\d{{4}})?|\b\d{{4}}-\d\d-\d\d\b"
    rf"|\b(?:early |late |mid[- ]?)?(?:the )?\d{{1,2}}(?:st|nd|rd|th) century\b{_ERA}?"
    rf"|\b(?:early |late |mid[- ]?)?(?:\d{{1,3}}(?:,\d{{3}})+(?={_ERA})|\d{{3,4}}s?\b){_ERA}?)"
    r"(?!,\d)"
)
# Words that deny what follows; "not only", "not until 1971" and titles ("Don't Look Now") do not.
_DENIAL = re.compile(
    r"(?:\b(?:[Nn]ot|never|Never(?=\s[^\W\d_A-Z])|cannot|[Nn]either|nor|no|none|[Nn]o one|"
    r"[Nn]obody|rather than|instead of)\b|(?<!\bDo)(?<!\bCa)(?<!\bWo)(?<!\bAi)n['’]t\b)"
    r"(?!\s(?:only|just|merely|simply|until|till|before|other)\b)"
)
# Text between quotation marks. An apostrophe inside a word is not a mark.
_QUOTED = re.compile(
    r"\"[^\"]+\"|(?<!\w)[\"“][^\"“”]+$|“[^“”]+”|„[^„“”]+[“”]|«[^«»]+»|[「『][^「」『』]+[」』]"
    r"|(?<!\w)['‘](?=\S)(?:[^'‘’]|(?<=\w)['’](?=\w))+(?<=\S)['’](?!\w)"
)


def without_quotations(text: str) -> str:
    """Replace every quoted character by "x", so that the indices of characters stay the same.

    A text that is a single quotation from end to end is returned unchanged.
    """
    if _QUOTED.fullmatch(text.strip()):
        return text
    return _QUOTED.sub(lambda quotation: "x" * len(quotation[0]), text)


def denial(text: str, start: int = 0, end: int | None = None) -> re.Match[str] | None:
    """Return the match of the first word in text[start:end] that denies the words after it.

    Words in quotations do not count.
    """
    return _DENIAL.search(without_quotations(text), start, len(text) if end is None else end)
