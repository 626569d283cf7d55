"""What an answer adds to its question, where it says the question's words again.

"Ada Lovelace was a keen mathematician." adds "keen mathematician" to "What did Ada Lovelace do?";
"Bern hosts the parliament." adds "Bern" to "Which city hosts the parliament?".
Read off question and answer alone, with the short lists of `english`:

1. a yes/no question is answered by a first "yes" or "no"; a question with two options by the one
   that is the clause's subject;
2. "when" and "how many" are answered by the one date or number that the clause adds, "when" also
   by what follows a "when" of the answer;
3. where the question asks at its end ("The river flows into which sea?"), the answer proper is what
   follows the same three words in the answer;
4. a title behind words of the question ('The show "Ada" is ...') answers a "what";
5. else the clause is split at a verb, and the answer is the side that adds words: behind the last
   verb before which nothing is new ("The bridge connecting Detroit to Windsor is | the Niagara
   Falls Bridge"), or before the first verb behind which nothing is new. Where both sides add words,
   or neither, the question tells: who did it stands before the question's own verb, and what it
   asks for with a preposition stands behind that preposition;
6. of what stands behind a verb or a lead-in, these go: a preposition at the front, a description
   before a name ("a British actor named ..."), the noun that the question asks for ("the band
   Queen"), a relative or second clause, a date that was not asked for, and an end that the question
   says as well.

A name of the question at the front counts as repeated even where it is misspelt, if the clause adds
something else and the question does not ask who: relatives share surnames ("Hanna Bo is the sister
of Anna Bo").
A clause that none of these can read is kept whole.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from anchorscope.anchors import asking, english
from anchorscope.anchors.properties import acts
from anchorscope.anchors.words import Word, words_of

_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|e|s|ers?|ors?|ly)$")
_DOUBLED = re.compile(r"(?<=\w\w)([bdgklmnprt])\1$")
_PRONOUNS = english.word_set("it he she they this that these those there i")
_BESIDE_VERBS = english.word_set("also been be first out up off down away over back")
# Words by which an answer speaks of itself.
_OF_ITSELF = english.word_set("answer question correct right only available final possible")
_YES_NO = re.compile(r"(?i:yes|no)(?=\s*[,.;:!–—-]|$)")
_PREPOSITIONS = english.word_set("in on at by from to as for with")
_ENDS = english.word_set("in on at from for during")  # may lead to what the question says, too
_AT_THE_FRONT = re.compile(
    r"[\s,;:]*(?:(?:in|on|at|by|from|to(?=\s(?:[A-Z]|the\s))|as|for|with|of|after|between|the|an|a|be|been|"
    r"(?:likely )?to be|probably|likely|also|both|actually|currently|usually|always|mainly|mostly|"
    r"none other than|"
    r"(?:title|name) of|(?:\w{3,}ed|done|made) by)\s+)+"
)
_NAMED = re.compile(
    r"\b(?:named|called|titled|entitled|nicknamed|known as|referred to as|by the name of)\s+"
    r"(?=(?:[Aa]n?\s|[Tt]he\s)?[\"“‘'*A-Z\d])"
)


def _any_of(*patterns: str) -> str:
    """A pattern of its alternatives."""
    return f"(?:{'|'.join(patterns)})"


_IS = _any_of("is", "was", "are", "were")
_RELATIVE = re.compile(
    "|".join(
        (
            rf",?\s{_any_of('who', 'which', 'that', 'whose', 'whom', 'where')}\s(?=[a-z])",
            rf",\s{_any_of('[a-z]+(?:ing|ed)', 'known', 'made', 'born', 'set', 'written')}\s",
            rf",\s{_any_of('but', 'when', 'while', 'although', 'though', 'because', 'since')}\s",
            rf",\s{_any_of('specifically', 'namely')}\s",
            rf",?\sand\s{_any_of('is', 'was', 'are', 'were', 'has', 'had')}\s",
            rf",\sand\s(?=[^,]*\s{_IS}\s)",
            rf",\s(?:[a-z]+ly\s|often\s)?{_any_of('with', 'without', 'including')}\s",
            rf",\s(?:[a-z]+ly\s|often\s)?{_any_of('after', 'before', 'during', 'by')}\s",
            rf"\s{_any_of('or', 'and', 'but')}$",
        )
    )
)
_OTHER_CLAUSE = re.compile(r",?\s(?:but|while|although|though|because)\s")
_APPOSITION = re.compile(r"(?<=\w),\s(?:an?|the)\s")
_BEHIND_A_QUOTATION = re.compile(r"(?<=[\"”»])\s(?:in|on|at|from|for|during|an?|the)\s")
_BEHIND_A_NAME = re.compile(
    r"(?<=[\"”»])\s(?:in|on|at|from|for|during|by|after|because|due)(?:\s|$)"
)
_OPENING_QUOTATION = re.compile(r"[\w\s'’-]{2,40}\s[\"“]([^\"“”]+)[\"”]")
_PARTICIPLES = english.word_set("made built written sung known held found set won led drawn given")
_NAMED_IN_SMALL = re.compile(r"\b(?:called|named|known as)\s(?=(?:an?\s|the\s)?[a-z])")
_NAMING_ENDS = (" called", " named", " nicknamed", " titled", " dubbed", " as")
_IS_NAMED = re.compile(
    r"\b(?:is|are|was|were|been)\s(?:\w+ly\s|also\s|often\s)?"
    r"(?:called|named|titled|nicknamed|dubbed|known\sas|referred\sto\sas)\s"
)
_MEASURE = re.compile(r"(\w+) of (?=[\d$£€])")
_NONE_OF_THEM = re.compile(r"\bno [a-z]+")
_WHEN = re.compile(r"\bwhen\s")
_JOINED = re.compile(r"\s*(?:to|and|until|or|[-–—])\s*")
_DATED = re.compile(rf"\s(?:in|on|from|since|until)\s(?:the\s)?(?:{english.DATE.pattern})$")
_PATTERNS = {asking.WHEN: english.DATE, **dict.fromkeys(asking.HOW_MANY, english.NUMBER)}
_PLACE_FIRST = re.compile(r"In ((?:the\s)?([A-Z\d][^,]{1,40})),\s")
_DATE_FIRST = re.compile(rf"(?:In|On|By|Since|Until)\s(?:{english.DATE.pattern}),\s")
_RANGE = re.compile(
    rf"\s(?:from|between)\s(?:{english.DATE.pattern}){_JOINED.pattern}(?:{english.DATE.pattern})$"
)
MISSPELT = 0.7  # least likeness (difflib's ratio) of a name that the answer spells otherwise
SAME_WORDS = 3  # of answer and question, right before what is asked for
_QUOTE_MARKS = '"“”„«»「」『』'


@dataclass(frozen=True)
class _Clause:
    """The words of an answer, compared with those of its question."""

    text: str
    question: frozenset[str]  # stems of the question's words
    words: Sequence[Word]
    quoted: Sequence[bool]  # whether each stands in a quotation
    content: Sequence[bool]  # whether each says something
    new: Sequence[bool]  # whether it says something that the question does not
    verbs: Sequence[int]  # indices of the words that may be verbs

    def count(self, start: int, end: int) -> tuple[int, int]:
        """Of words [start, end): how many say something, and how many something new."""
        return sum(self.content[start:end]), sum(self.new[start:end])

    def after_verbs(self, verb: int) -> int:
        """Index of the word behind a verb and those that follow it: "has been called |"."""
        end = verb + 1
        while end in self.verbs or (
            end < len(self.words) and self.words[end].lower in _BESIDE_VERBS
        ):
            end += 1
        return end


def is_clause(text: str) -> bool:
    """Whether a text holds what may be a verb in small letters, outside quotations."""
    return bool(_clause(text, "").verbs)


def added(
    text: str, question: str, *, predicate: bool, naming: bool = False
) -> tuple[int, int] | None:
    """Characters [start, end) of what an answer adds to its question; None: not to be told.

    Args:
        text: a clause of one sentence, without its lead-in.
        question: what was asked.
        predicate: whether a lead-in with a copula stood before the text ("The winner is").
        naming: whether that lead-in ended with a word that a name follows ("It is called").
    """
    question_words = words_of(question)
    kind, noun = asking.answer_kind(question_words), asking.asked_noun(question_words)
    pattern = _PATTERNS.get(kind or "")
    if kind == asking.YES_NO:
        verdict = _YES_NO.match(text)
        return verdict.span() if verdict else _option(_clause(text, question), question_words)
    if question_words and question_words[0].lower == "in":
        place = _PLACE_FIRST.match(text)
        if place and adds(place[1], question) and (pattern is None or pattern.fullmatch(place[2])):
            return place.span(1)
    if (start := _continuation(_clause(text, question), question_words)) is not None:
        head = _head(_clause(text, question), start, kind, noun)
        only = _only(pattern, text[slice(*head)], question) if head and pattern else None
        return (head[0] + only[0], head[0] + only[1]) if head and only else head
    clause = _clause(_first_clause(text, predicate), question)
    if kind in asking.HOW_MANY and clause.verbs and (none := _NONE_OF_THEM.search(clause.text)):
        return none.span()
    if english.denial(clause.text):
        return None
    if (clause.verbs or predicate) and pattern and (only := _only(pattern, clause.text, question)):
        return only
    if kind == asking.WHEN and (when := _WHEN.search(clause.text, 1)):
        return when.start(), len(clause.text)
    if kind == "what" and not predicate and (title := _title_first(clause)):
        return title
    side = (0, len(clause.words)) if predicate else _side(clause, question_words)
    side = side or _behind(clause, asking.prepositions(question_words))
    if side is None:
        return None
    start, end = side
    if not predicate and start == 0:
        return _before_verb(clause, end, noun, _final_preposition(question_words))
    head = _head(clause, start, kind, noun, asking.prepositions(question_words), naming=naming)
    if head and not predicate:
        head = head[0], _without_repeated_end(clause, start, head[1])
    if head and pattern and (only := _only(pattern, clause.text[slice(*head)], question)):
        return head[0] + only[0], head[0] + only[1]
    return head


def continues(text: str, question: str) -> bool:
    """Whether an answer goes on where a question asks at its end: "It flows into | which sea"."""
    return _continuation(_clause(text, question), words_of(question)) is not None


def _first_clause(text: str, predicate: bool) -> str:
    """The text up to a "but" or the like behind its first verb; a predicate without relatives."""
    plain = english.without_quotations(text)
    if predicate:
        for relative in _RELATIVE.finditer(plain):
            if any(says_something(word) for word in words_of(text[: relative.start()])):
                return text[: relative.start()]
    for other in _OTHER_CLAUSE.finditer(plain):
        if predicate or is_clause(text[: other.start()]):
            return text[: other.start()]
    return text


def adds(text: str, question: str) -> bool:
    """Whether a text says something that the question does not."""
    return any(_clause(text, question).new)


def answered_before(text: str, place: int, question: str) -> bool:
    """Whether the part of a clause before a place has the answer.

    That is the date or number that the question asks for and the rest lacks, one of the question's
    options, or a title behind words of the question.
    """
    words = words_of(question)
    kind, clause = asking.answer_kind(words), _clause(text, question)
    if pattern := _PATTERNS.get(kind or ""):
        return bool(pattern.search(text[:place])) and not pattern.search(text[place:])
    if _final_preposition(words):  # "The longest river of Peru is | the Ucayali"
        return adds(text[:place], question) and not adds(text[place:], question)
    title = _title_first(clause) if kind == "what" else None
    return title is not None or _option(clause, words) is not None


def tells_an_act(text: str, question: str) -> bool:
    """Whether a text has a verb, no auxiliary, that the question lacks: "She was killed in it"."""
    clause = _clause(text, question)
    verbs = {clause.words[i].lower for i in clause.verbs} - english.AUXILIARIES
    return any(not _repeats(verb, clause.question) for verb in verbs)


def stems(text: str) -> frozenset[str]:
    """The stems of all words of a text, and of the parts of those with a hyphen."""
    words = [word.lower for word in words_of(text)]
    parts = [part for word in words if "-" in word for part in word.split("-")]
    return frozenset(map(_stem, words + parts))


def content_stems(text: str) -> frozenset[str]:
    """The stems of the words that say something."""
    clause = _clause(text, "")
    words = zip(clause.words, clause.content, strict=True)
    return frozenset(_stem(word.lower) for word, content in words if content)


def says_something(word: Word) -> bool:
    """Content words, and function words in capitals that begin no sentence ("The Who")."""
    return word.content or (word.capital and not word.first)


def _stem(word: str) -> str:
    word = english.IRREGULAR.get(word, word)
    return _DOUBLED.sub(r"\1", _ENDING.sub("", word.removesuffix("'s")))


def _repeats(word: str, question: frozenset[str]) -> bool:
    """Whether the question has a word, or all parts of one with a hyphen ("shoot-out")."""
    return _stem(word) in question or all(_stem(part) in question for part in word.split("-"))


def _misspells(word: str, question: frozenset[str]) -> bool:
    """Whether the question has a word that shares most letters with this one: "Ana" of "Anna"."""
    return bool(get_close_matches(_stem(word), question, n=1, cutoff=MISSPELT))


def _clause(text: str, question: str) -> _Clause:
    """The words of a text, compared with those of a question."""
    words, question_stems = words_of(text), stems(question)
    plain = english.without_quotations(text)
    quoted = [plain[word.start : word.end] != text[word.start : word.end] for word in words]
    verbs = [
        i
        for i, (word, inside) in enumerate(zip(words, quoted, strict=True))
        if not inside
        and _may_be_verb(word, question_stems)
        and not (i and words[i - 1].lower in english.ARTICLES)  # "a play by Arthur Miller"
    ]
    content = [
        inside or (says_something(word) and word.lower not in _OF_ITSELF)
        for word, inside in zip(words, quoted, strict=True)
    ]
    new = [
        content[i]
        and i not in verbs
        and (word.capital or not word.function)
        and word.lower not in english.ARTICLES
        and not _repeats(word.lower, question_stems)
        for i, word in enumerate(words)
    ]
    if _opens_with_a_name(words, content, new, verbs) and any(new[1:]) and not _asks_who(question):
        new[0] = not _misspells(words[0].lower, question_stems)  # "Ana Bo is", asked of Anna Bo
    return _Clause(text, question_stems, words, quoted, content, new, verbs)


def _opens_with_a_name(
    words: Sequence[Word], content: Sequence[bool], new: Sequence[bool], verbs: Sequence[int]
) -> bool:
    """Whether a text begins with a new word, and a verb or a name of the question follows it."""
    if len(words) < 2 or not new[0]:
        return False
    return (words[1].capital and content[1] and not new[1]) or (words[0].capital and 1 in verbs)


def _asks_who(question: str) -> bool:
    """Whether a question asks for a person, whose name may be much like one of the question's."""
    return asking.answer_kind(words_of(question)) == "who"


def _may_be_verb(word: Word, question: frozenset[str]) -> bool:
    """Whether a word may be a verb: by its form, or as a verb that the question has as well."""
    listed = acts(word) or word.lower in english.IRREGULAR or word.lower in ("mean", "means")
    repeated = listed and _stem(word.lower) in question
    return asking.is_verb(word) or (repeated and not word.capital)


def _only(pattern: re.Pattern[str], text: str, question: str) -> tuple[int, int] | None:
    """The one match in a text, or the one that the question lacks; a range counts as one."""
    places: list[tuple[int, int]] = []
    for match in pattern.finditer(text):
        joined = places and _JOINED.fullmatch(text, places[-1][1], match.start())
        if joined and text[places[-1][1] : match.start()].strip():
            places[-1] = (places[-1][0], match.end())
        else:
            places.append(match.span())
    missing = [place for place in places if text[slice(*place)] not in question]
    chosen = missing or places
    texts = {text[slice(*place)] for place in chosen}
    return chosen[-1] if len(texts) == 1 else None


def _continuation(clause: _Clause, question: Sequence[Word]) -> int | None:
    """Index of the word behind what the answer repeats of a question that asks at its end."""
    at = asking.question_word(question)
    if at is None or at < SAME_WORDS or any(w.lower in english.AUXILIARIES for w in question[at:]):
        return None
    before = [word.lower for word in question[at - SAME_WORDS : at]]
    words = [word.lower for word in clause.words]
    for start in range(SAME_WORDS, len(words)):
        if words[start - SAME_WORDS : start] == before and words[start] not in english.WH:
            return None if _new_behind_verb(clause, start) else start
    return None


def _new_behind_verb(clause: _Clause, start: int) -> bool:
    """Whether, from a word on, only what stands behind a "be" is new: "the sea | is the Baltic"."""
    for verb in clause.verbs:
        if verb >= start and clause.words[verb].lower in english.BE:
            return not clause.count(start, verb)[1] and clause.count(verb, len(clause.words))[1] > 0
    return False


def _side(clause: _Clause, question: Sequence[Word]) -> tuple[int, int] | None:
    """Words [start, end) on the side of a verb that answers the question; start 0: before it."""
    size, doer = len(clause.words), asking.answer_kind(question) == "who"
    doer = doer or any(word.lower == "by" for word in question)
    if not clause.verbs:
        return None
    if _option(clause, question):
        return (0, clause.verbs[0])
    before: tuple[int, int] | None = None
    behind: tuple[int, int] | None = None
    for verb in clause.verbs:
        after = clause.after_verbs(verb)
        left, left_new = clause.count(0, verb)
        right_new = clause.count(after, size)[1]
        if right_new and doer and _passive(clause, verb, after):
            return (after, size)
        if behind is not None and _is_participle(clause, verb):
            continue  # "is a boat | built of oak"
        restates = left - left_new > 0 or any(w.lower in _PRONOUNS for w in clause.words[:verb])
        if not left_new and restates and right_new:
            behind = (after, size)
        if before is None and left_new and not right_new:
            before = (0, verb)
    return (
        behind
        or before
        or _named(clause)
        or _side_by_the_question(clause, asking.doing(question), doer)
    )


def _is_participle(clause: _Clause, verb: int) -> bool:
    """Whether a verb describes the noun right before it, behind a "be": "is a boat | built of"."""
    before, word = clause.words[verb - 1], clause.words[verb].lower
    form = word.endswith("ed") or word in _PARTICIPLES
    linked = any(clause.words[i].lower in english.BE for i in clause.verbs if i < verb)
    return form and linked and verb - 1 not in clause.verbs and not before.function


def _named(clause: _Clause) -> tuple[int, int] | None:
    """Words behind the one "is called" or the like, if new: "is known as | the Valkyries"."""
    places = [*_IS_NAMED.finditer(english.without_quotations(clause.text))]
    if len(places) != 1:
        return None
    start = sum(word.end <= places[0].end() for word in clause.words)
    return (start, len(clause.words)) if any(clause.new[start:]) else None


def _option(clause: _Clause, question: Sequence[Word]) -> tuple[int, int] | None:
    """Characters of the subject if it is one of two options: "Ada is older" of "Ada or Bob"."""
    subject = clause.words[: clause.verbs[0]] if clause.verbs else ()
    if not subject or not _between_or(subject, question):
        return None
    return subject[0].start, subject[-1].end


def is_option(text: str, question: str) -> bool:
    """Whether a text is one of two options that a question offers: "gold" of "gold or silver"."""
    return _between_or(words_of(text), words_of(question))


def _between_or(words: Sequence[Word], question: Sequence[Word]) -> bool:
    """Whether words stand in a question right before or behind an "or"."""
    option = " ".join(word.lower for word in words)
    whole = " ".join(word.lower for word in question)
    return f" {option} or " in f" {whole}" or f" or {option} " in f"{whole} "


def _side_by_the_question(clause: _Clause, doing: str | None, doer: bool) -> tuple[int, int] | None:
    """The side of a verb where both sides add words to the question, or neither does."""
    size = len(clause.words)
    for verb in clause.verbs:
        word, after = clause.words[verb].lower, clause.after_verbs(verb)
        left, left_new = clause.count(0, verb)
        right, right_new = clause.count(after, size)
        if doer and _passive(clause, verb, after):
            return (after, size)
        names = any(word.capital for word in clause.words[after:])
        if doing is None and _stem(word) in clause.question and names and not left_new + right_new:
            return (after, size)  # "Iron ore comes from Australia"
        content = [i for i in range(after, size) if clause.content[i]]
        if word in english.BE and left == left_new > 0 and content and not clause.new[content[0]]:
            return (0, verb)  # "Jupiter is the largest planet of our solar system"
        if doing is not None and _stem(word) == _stem(doing) and left:
            return (0, verb)
        if word in english.BE and right and left and (2 * left_new < left or not right_new):
            return None if _says_it_twice(clause, verb, after) else (after, size)
    return None


def _behind(clause: _Clause, prepositions: frozenset[str]) -> tuple[int, int] | None:
    """Words behind the one preposition by which the question asks: "fought it against | Ada"."""
    places = [i for i, word in enumerate(clause.words) if word.lower in prepositions]
    if len(places) != 1 or not clause.verbs or places[0] < clause.verbs[0]:
        return None
    if not any(clause.new[places[0] + 1 :]):
        return None
    return places[0] + 1, len(clause.words)


def _passive(clause: _Clause, verb: int, after: int) -> bool:
    """Whether a verb of the question is followed by "by": "was written by"."""
    by = after < len(clause.words) and clause.words[after].lower == "by"
    return by and _stem(clause.words[after - 1].lower) in clause.question


def _says_it_twice(clause: _Clause, verb: int, after: int) -> bool:
    """Whether "X is Y" has no word in Y that X lacks, and no name in it or quotation."""
    text, edge = clause.text, clause.words[verb].start
    behind = text[clause.words[after].start :]
    if any(word.capital for word in clause.words[after:]):
        return False
    return stems(behind) <= stems(text[:edge]) and behind == english.without_quotations(behind)


def _final_preposition(question: Sequence[Word]) -> str | None:
    """The preposition that ends a question: "of" of "What is it a kind of?"."""
    last = question[-1].lower if question else ""
    return last if last in asking.GOVERNING else None


def _before_verb(
    clause: _Clause, end: int, noun: str | None, final_preposition: str | None
) -> tuple[int, int] | None:
    """Characters of the words before a verb, without small words at their end.

    Args:
        end: index of the verb.
        noun: the noun that the question asks for.
        final_preposition: the question's; what follows it is the answer ("capital of | Peru").
    """
    text, words = clause.text, clause.words
    lower = [word.lower for word in words[: max(0, end - 1)]]
    if final_preposition is not None and lower.count(final_preposition) == 1:
        return words[lower.index(final_preposition) + 1].start, words[end - 1].end
    while end and words[end - 1].function and not words[end - 1].capital:
        end -= 1  # "Samuel Beckett who | wrote it"
    if not end:
        return None
    if quoted := _only_quoted(clause, 0, end):
        return quoted
    date = _DATE_FIRST.match(text)
    last = words[end].start if end < len(words) else len(text)
    return _behind_class(text, date.end() if date else 0, noun), len(text[:last].rstrip())


def _head(
    clause: _Clause,
    start: int,
    kind: str | None,
    noun: str | None,
    prepositions: frozenset[str] = frozenset(),
    *,
    naming: bool = False,
) -> tuple[int, int] | None:
    """Characters of the answer that begins at a word, without what leads to it or follows it.

    Args:
        noun: the noun that the question asks for.
        prepositions: those by which the question asks; what follows one is the answer.
        naming: whether a word that a name follows stood before the text.
    """
    text = clause.text
    undated = len(text) if kind == asking.WHEN else _before_date(clause, start)
    start = _behind_preposition(clause, start, undated, prepositions)
    begin = _end_of_word_before(clause, start)
    begin += len(text[begin:]) - len(text[begin:].lstrip())
    end = _without_second_clause(clause, start, begin, _before_relative(text, begin, undated))
    named = _behind_naming(clause, begin, end)
    first = _behind_lead_in(clause, begin if named is None else named, noun)
    is_name = naming or named is not None or ends_with_naming(text[:first])
    tail = _BEHIND_A_NAME if is_name and (naming or kind != "who") else _BEHIND_A_QUOTATION
    last = _before_apposition(text, first, _quotation_end(tail, text, first, end))
    head = words_of(text[first:last])
    if not any(word.content or word.capital or word.number for word in head):
        return None
    title = _title_behind(clause, first, last) if kind == "what" else None
    return title or (first, last)


def _end_of_word_before(clause: _Clause, start: int) -> int:
    """Character behind the word before one; 0 before the first."""
    return clause.words[start - 1].end if start else 0


def _before_date(clause: _Clause, start: int) -> int:
    """Where a date at the clause's end begins, behind a word: "Bo Day | in 1972"; else its end."""
    behind = _end_of_word_before(clause, start)
    dated = _RANGE.search(clause.text, behind) or _DATED.search(clause.text, behind)
    return dated.start() if dated else len(clause.text)


def _behind_preposition(
    clause: _Clause, start: int, last: int, prepositions: frozenset[str]
) -> int:
    """Index of the word behind the last preposition before which nothing is new.

    "the Cybermen by | a group of monks". The words begin at `start` and end before character
    `last`; each of the question's prepositions counts once.
    """
    words, plain = clause.words, english.without_quotations(clause.text)
    inside = [i for i in range(start, len(words)) if words[i].end <= last]
    unused = prepositions
    for i in inside[1:-1]:
        word = plain[words[i].start : words[i].end].lower()
        repeated, new = clause.count(start, i)
        verbs = [words[verb].lower for verb in clause.verbs if start <= verb < i]
        acts_anew = any(
            not _repeats(verb, clause.question) and not _misspells(verb, clause.question)
            for verb in verbs
        )  # "a token created by | its makers"
        repeats = repeated and not new and not acts_anew and not any(clause.quoted[start:i])
        if word in _PREPOSITIONS | unused and repeats and any(clause.new[i : inside[-1] + 1]):
            start = i + 1
            unused -= {word}
    return start


def _before_relative(text: str, first: int, last: int) -> int:
    """Where a relative or the like begins that follows something: "doctor | who works in Rome"."""
    for relative in _RELATIVE.finditer(text, first, last):
        if any(says_something(word) for word in words_of(text[first : relative.start()])):
            return relative.start()
    return last


def _behind_naming(clause: _Clause, first: int, last: int) -> int | None:
    """Behind the last "named" or the like: "an actor named | Ann Bo"; None without.

    A name in small letters only follows the question's words: "a device called | a kettle".
    """
    places = [naming.end() for naming in _NAMED.finditer(clause.text, first, last)]
    for naming in _NAMED_IN_SMALL.finditer(clause.text, first, last):
        before = [
            new
            for word, new in zip(clause.words, clause.new, strict=True)
            if first <= word.start < naming.start()
        ]
        behind = [
            new
            for word, new in zip(clause.words, clause.new, strict=True)
            if naming.end() <= word.start < last
        ]
        if not any(before) and any(behind):
            places.append(naming.end())
    return max(places, default=None)


def ends_with_naming(text: str) -> bool:
    """Whether a text ends with a word that a name follows, quotation marks apart."""
    return text.rstrip(_QUOTE_MARKS + " ").endswith(_NAMING_ENDS)


def _behind_lead_in(clause: _Clause, first: int, noun: str | None) -> int:
    """Behind small words, the noun asked for and a measure: "an altitude of | 180 feet"."""
    front = _AT_THE_FRONT.match(clause.text, first)
    behind = _behind_class(clause.text, front.end() if front else first, noun)
    measure = _MEASURE.match(clause.text, behind)
    repeated = measure is not None and _stem(measure[1].lower()) in clause.question
    return measure.end() if measure and repeated else behind


def _quotation_end(tail: re.Pattern[str], text: str, first: int, last: int) -> int:
    """Where a quotation that opens the answer ends, if a tail follows: '"Drift" | in Japan'."""
    quoted = text.startswith(tuple(_QUOTE_MARKS), first)
    behind = tail.search(text, first, last) if quoted else None
    return behind.start() if behind else last


def _before_apposition(text: str, first: int, last: int) -> int:
    """Where a description behind a comma begins: "Ann Bo |, a painter from Rome"."""
    apposition = _APPOSITION.search(text, first, last)
    return apposition.start() if apposition else last


def _behind_class(text: str, first: int, noun: str | None) -> int:
    """Behind the noun that the question asks for: "band | Queen", "genre of | drama"."""
    if noun is None or not text[first:].startswith(noun + " "):
        return first
    behind = first + len(noun) + 1
    of = r"of (?:the |an? )?(?=\S)|" if noun in english.APPOSED else ""
    follows = re.compile(rf"{of}(?=[\"“A-Z])").match(text, behind)
    return follows.end() if follows else first


def _without_second_clause(clause: _Clause, start: int, first: int, last: int) -> int:
    """Where the first of two joined clauses ends: "Ann | and stars Bo", "a tale |, set in"."""
    words = clause.words
    for i in range(start + 1, len(words)):
        if words[i].end > last or words[i - 1].end <= first or i not in clause.verbs:
            continue
        joined = words[i - 1].lower == "and" and not _describes(clause, i)
        if joined and clause.count(start, i - 1)[1]:
            return len(clause.text[: words[i - 1].start].rstrip(" ,"))
        if words[i].breaks and clause.count(start, i)[1]:
            return words[i - 1].end
    return last


def _without_repeated_end(clause: _Clause, start: int, last: int) -> int:
    """Without an end that the question says as well: "Bo Day | in the chess match of 1972"."""
    words = clause.words
    end = sum(word.end <= last for word in words)
    for i in range(start + 1, end):
        repeated, new = clause.count(i, end)
        if (
            words[i].lower in _ENDS
            and not clause.quoted[i]
            and clause.count(start, i)[1]
            and repeated
            and not new
        ):
            return words[i - 1].end
    return last


def _describes(clause: _Clause, verb: int) -> bool:
    """Whether a verb in -ed stands before what it describes: "iconic and | beloved ballets"."""
    behind = clause.words[verb + 1 : verb + 2]
    return clause.words[verb].lower.endswith("ed") and bool(behind) and not behind[0].function


def _title_first(clause: _Clause) -> tuple[int, int] | None:
    """The quotation that opens a clause behind words of the question: 'the show "Ada" is ...'."""
    opening = _OPENING_QUOTATION.match(clause.text)
    if (
        opening is None
        or is_clause(clause.text[: opening.start(1) - 1])
        or clause.text == english.without_quotations(clause.text)
    ):
        return None
    before = sum(word.end <= opening.start(1) for word in clause.words)
    inside = sum(word.end <= opening.end(1) for word in clause.words)
    repeated, new = clause.count(0, before)
    return opening.span(1) if repeated and not new and clause.count(before, inside)[1] else None


def _title_behind(clause: _Clause, first: int, last: int) -> tuple[int, int] | None:
    """The quotation of text[first:last] if only it is new there: 'the novel "Ada"'."""
    quotation = _OPENING_QUOTATION.match(clause.text, first, last)
    if quotation is None:
        return None
    start, end = quotation.span(1)
    places = [
        word.start
        for word, new in zip(clause.words, clause.new, strict=True)
        if new and first <= word.start < last
    ]
    only = bool(places) and all(start <= place < end for place in places)
    return (start, end) if only else None


def _only_quoted(clause: _Clause, start: int, end: int) -> tuple[int, int] | None:
    """The quotation among words [start, end), if all that they add stands in it."""
    plain = english.without_quotations(clause.text)
    new = [i for i in range(start, end) if clause.new[i]]
    places = [range(clause.words[i].start, clause.words[i].end) for i in new]
    if not places or any(plain[c] == clause.text[c] for place in places for c in place):
        return None
    first, last = clause.words[new[0]].start, clause.words[new[-1]].end
    while first and clause.text[first - 1] not in _QUOTE_MARKS:
        first -= 1
    while last < len(clause.text) and clause.text[last] not in _QUOTE_MARKS:
        last += 1
    return first, last
