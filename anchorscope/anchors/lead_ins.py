"""Lead-ins: what a model writes before the answer proper, one pattern for each way of leading in.

They are English and look at the answer's text alone; what no pattern matches stays in the answer.
A lead-in lies within one sentence and holds no denial: nothing is stripped from "I don't think it
was written by X", or the answer would turn into its opposite.
"""

import re
from collections.abc import Iterator

from anchorscope.anchors.english import denial

# Anything but the end of a clause; an aside in brackets counts as one character.
_ASIDE = r"\([^()]*\)|\[[^\[\]]*\]"
_CLAUSE = rf"(?:[^,;()\[\]]|{_ASIDE})"
_ADVERB = r"(?:probably|possibly|likely|perhaps|maybe)"
_COPULA = (
    r"(?<!that )(?<!which )(?<!who )(?:is|was|are|were|has been|have been|"
    rf"(?:would|might|may|could|must|should|can|will)(?: have)? be(?:en)?)(?: {_ADVERB}(?= ))?"
)
_BY = r"(?:in|at|on|by|from|to|as)"
_PASSIVE = (
    r"(?:(?:[a-z]{2,}ly |first |also )?(?:called|named|born|(?:[a-z]{2,}ed|found|held|set|written|"
    rf"built|sung|known|made|won|led|drawn|shot|given)(?= {_BY}\b))\b(?: {_BY}\b)?)"
)
_BE = rf"{_COPULA}(?: {_PASSIVE})?"
THINK = r"(?:think|believe|guess|suppose|assume|suspect|reckon|(?:would|['’]d) (?:say|guess|think))"
_SMALL = "the|and|for|from|with|into|but|nor|yet|over|than|upon"  # small letters in a title, too
_PRONOUN = "(?:it|he|she|they|this|that)"
_MARKUP = r"[*_]*"
UNABLE = (
    r"(?:cannot|can not|can['’]t|could not|couldn['’]t|(?:am|was) (?:not able|unable)|"
    r"do(?: not|n['’]t) have)\b"
)

# Nothing may be left behind these: the answer is missing.
LABELS = (
    re.compile(
        r"(?i:(?:so,? |and )?(?:the |my )?(?:correct |right |final |short |best )?ans(?:wer)?"
        rf"(?: to (?:the|this|that|your) question)?)(?: (?:{_ASIDE}))?"
        rf"(?:{_MARKUP}\s*[:：]{_MARKUP}| [-–—](?= )| (?:is|was|would be)\b:?)"
    ),
    re.compile(r"(?:A|a|(?i:response|output|result|solution|assistant))\s*[:：](?=\s|$)"),
    # A question that the model asks itself, up to its mark: "Q: ...?", "Question: ...".
    re.compile(
        rf"(?i:q|question)(?:{_MARKUP}\s*[:：][^?]*?(?:\?|$|(?=\s(?i:a|answer)\s*[:：]))|"
        r"\. [^?]*\?)"
    ),
    re.compile(r"(?<=\? )A\.(?=\s)"),
)
_OPENINGS = (
    # The question again. A title asks in capitals: "Who's Afraid of Virginia Woolf? It is a play".
    re.compile(
        r"(?i:what|which|who|whom|whose|when|where|why|how|in (?:what|which)|on (?:what|which)|is|"
        r"are|was|were|do|does|did|has|have|can|could)(?:['’]s)?"
        rf"(?= [a-z]|[^?]*\b(?!(?:{_SMALL})\b)[a-z]{{3,}}\b|[^?]*\?\W*(?i:yes|no)\b)"
        r"[^?]*\?(?=[\"”*_]*(?:\s+\S|<|\[))"
    ),
    re.compile(r"[Tt]he [a-z][^?]*\?(?=[^\S\n]+\w)"),
    re.compile(r"(?i:sure|certainly|of course|(?:great|good) question)[!,.:](?=\s+[^\W_])"),
    re.compile(
        r"(?i:hm+|well|um+|oh|okay|ok|so|actually|apparently|currently|historically|honestly|"
        r"officially|originally|technically|today|unfortunately|sadly|regrettably),(?=\s)"
    ),
    # Regret, unless a title begins so: "Sorry, Wrong Number", "Alas, Babylon".
    re.compile(r"(?i:sorry|apologies|alas|i apologi[sz]e),(?=\s(?:I\b|[a-z]))"),
    re.compile(r"(?i:as an? (?:ai|artificial|large|language)\b)[^,.]{0,40},(?=\s)"),
    re.compile(rf"(?i:without|given|after|despite)\b{_CLAUSE}{{1,60}}?,(?=\sI {UNABLE})"),
    # Where it is known from, or as of when.
    re.compile(
        r"(?i:as of|according to|based on|as far as|to (?:the best of )?my|from what|in my|if i|"
        r"if memory)\b"
        rf"{_CLAUSE}{{1,60}}?(?:, \d{{4}})?(?:,|(?<=\d{{4}})(?= (?:the|it|he|she|they)\b))(?=\s)"
    ),
    # Doubt: "I'm not sure, but", unless "I" then does something else than think.
    re.compile(
        r"(?i:i\b|i['’]m|not|unsure|sorry)[^.;!?]{0,80}?"
        r"\b(?:sure|certain|know|remember|recall|positive|confident|wrong|mistaken)\b[^.;!?]{0,40}?"
        rf"(?:,? (?:but|though|however),?(?= )(?! I\b(?! {THINK}))|,(?= {_ADVERB}\b))"
    ),
    re.compile(
        r"I(?:['’]m| am) (?!not)(?:[a-z]+ ){0,2}(?:sure|certain|confident|positive)(?: that\b)?"
        r"(?= )"
    ),
    re.compile(rf"I(?: {_ADVERB})?[ ]?{THINK}(?: that\b)?[,:]?(?= )"),
    re.compile(rf"[Mm]y (?:best |first )?(?:guess|bet) {_COPULA}(?: that\b)?:?(?=\s)"),
    re.compile(r"(?:[Pp]robably|[Pp]ossibly|[Pp]resumably|[Ll]ikely|perhaps|maybe),?(?=\s)"),
    re.compile(r"(?:Perhaps|Maybe)(?:,|(?= [a-z\d]))(?=\s)"),
    # What it is not: the answer comes after the "but".
    re.compile(
        rf"(?:[Nn]ot|(?i:{_PRONOUN}) \w+n['’]t) (?!only|just|merely){_CLAUSE}{{1,60}}?"
        rf"(?:,? but(?: rather)?|[,;] (?:rather|{_PRONOUN}(?: {_COPULA}|['’]s)(?! not)))(?= )"
    ),
)
# Case matters: "It is Paris" leads in, the title "It Is What It Is" does not.
_CLAUSES = (
    re.compile(rf"(?i:{_PRONOUN}|(?:his|her|its|their) [a-z]+)(?: (?:{_ASIDE}))? {_BE}(?=\s|$)"),
    re.compile(r"[Ii]t['’]s (?=[a-z])(?!an? [A-Z])"),
    re.compile(r"it['’]s(?=\s)"),
    # "The <lower-case word> ... is": a clause; "The Who ...": a name.
    re.compile(rf"[Tt]he [a-z]{_CLAUSE}{{0,80}}? {_BE}:?(?=\s)"),
    # Of a title or an acronym, where a name follows: "The Prime Minister is X".
    re.compile(rf"[Tt]he [A-Z]{_CLAUSE}{{0,80}}? {_COPULA}(?= [\"“*]*[A-Z])"),
    re.compile(rf"{_CLAUSE}{{1,60}}?['’]s?(?: (?:{_ASIDE}))? [a-z]+(?: [a-z]+)? {_BE}:?(?=\s)"),
    re.compile(rf"{_CLAUSE}{{1,80}}? {_COPULA} {_PASSIVE}(?=\s)"),
)
_SECOND_CLAUSE = re.compile(rf"\b(?:and|but) {_COPULA} ")  # "Ada and was born in"
_DATED = re.compile(
    rf"(?:In|On|By|Since|During|Until|Around|Back in) {_CLAUSE}{{0,20}}\d{_CLAUSE}{{0,20}}?"
    r"(?:, \d{4})?(,?)(?=\s)"
)
# A sentence about the request, which says nothing of the answer: "Okay, so the user asks ...".
_HM = r"(?i:okay|ok|alright|all right|so|well|hm+|now|right|first|sure)[,.!:]?\s+"
_OF_THE_REQUEST = re.compile(
    rf"(?:{_HM}){{0,3}}(?:"
    r"[Tt]he (?:user|person)(?:['’]s| is| has| was)? "
    r"(?:just )?(?:ask|want|question|query|request|look|need)[a-z]*\b|"
    r"(?:[Tt]h(?:e|is)|[Yy]our) (?:question|query|prompt) "
    r"(?:asks|asked|is asking|is about|wants|refers|seems)\b|"
    r"[Yy]ou(?:['’]re| are|['’]ve| have)? (?:ask(?:ed|ing)?|want to know)\b|"
    r"I(?: am| was|['’]m|['’]ve been| have been) (?:being )?asked\b|"
    r"I(?: (?:need|have|want|should|must|will)|['’]ll|(?: am|['’]m) (?:going|trying|supposed))"
    r"(?: to)? (?:recall|think about|figure out|find|answer|identify|determine|remember|check|look)"
    r"\b|"
    r"[Ll]et(?: me|['’]s| us) (?:think|see|recall|check|try|start|look|find|figure)\b)"
)
_CLOSE = re.compile(r"[\"”*_]*")
_NAME = re.compile(r"\s*(?:[^\W\d_a-z][\w.'’-]*(?:\s(?:of|the|and|de|van|von|der))*\s*){1,6}")


def after(text: str, start: int, end: int) -> int:
    """The end of the lead-in that begins at `start`; `start` where there is none.

    `start` is the answer's first character that is neither space nor markup, `end` the end of its
    sentence.
    """
    for label_end in _match_ends(LABELS, text, start, end):
        return label_end
    for opening_end in _match_ends(_OPENINGS, text, start, end):
        if text[opening_end:].strip():
            return opening_end
    return _after_clause(text, start, end) or _after_date(text, start, end) or start


def speaks_of_the_request(text: str, start: int) -> bool:
    """Whether the sentence that begins at `start` is about the request, not an answer to it."""
    return bool(_OF_THE_REQUEST.match(text, start))


def _match_ends(
    patterns: tuple[re.Pattern[str], ...], text: str, start: int, end: int
) -> Iterator[int]:
    """Where each pattern that matches ends, quotes and markup behind a question mark included."""
    for pattern in patterns:
        match = pattern.match(text, start)
        if match and match.end() <= end + 1:  # a question's mark also ends the sentence
            closing = _CLOSE.match(text, match.end()) if match[0].endswith("?") else None
            yield (closing or match).end()


def _after_clause(text: str, start: int, end: int) -> int | None:
    """The end of a clause such as "The capital is"; None where none begins at `start`."""
    for clause_end in _match_ends(_CLAUSES, text, start, end):
        # A whole clause without an object is the answer itself, unless it announces one.
        announces = text[clause_end - 1] == ":" and text[clause_end:].strip()
        if not announces and not text[clause_end:end].strip():
            continue
        if denial(text, start, clause_end) or _SECOND_CLAUSE.search(text, start, clause_end):
            continue
        return clause_end
    return None


def _after_date(text: str, start: int, end: int) -> int | None:
    """The end of "In 2020," where only a name, or a clause that leads in, follows.

    Anything else may belong to a date that was asked for: "In 1947, at Westminster Abbey".
    """
    if not (date := _DATED.match(text, start, end)):
        return None
    rest = date.end() + 1
    has_comma = bool(date[1])
    name_follows = has_comma and _NAME.fullmatch(text, rest, end)
    return date.end() if name_follows or _after_clause(text, rest, end) else None
