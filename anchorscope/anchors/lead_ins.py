"""Find where the answer's sentence begins in a reply: after lead-ins and a repeated question."""

import re

from anchorscope.anchors.answer_text import TAG, adds

# Empty thoughts, then all text before the last answer that the reply marks as such.
_BEFORE = re.compile(
    r"(?is)(?:\s*<(think\w*)>\s*</\1>)?(?:.*(?:<(?:final[ _-]?)?answer>|\\boxed\{(?:\\text\{)?"
    r"|(?:(?:^|[\n.!?])[\s#>*_-]*|\b(?:so|thus|therefore|hence),?\s)(?:the |my )?final answer[*_]*"
    r"(?: is\b:?(?!\s(?:correct|right|wrong|not)\b)|\s*:|[^\S\n]*\n)[*_]*)(?=\W*\w)"
    r"|.*?\\text\{)?"
)
_NEXT_QUESTION = re.compile(r"\n\W*(?:Q|[Qq]uestion)\s*:")  # of a model that runs on
_FRONT = re.compile(
    rf"(?:{TAG}|[\s\u200b-\u200f\ufeff,;:¿¡…]|\.\.+|[-–—•*+>#]+\s|[*_`]+"
    r"|\(?(?:[A-Ea-e]|1)\)\s+(?=\w)|1\.\s+(?=[\w*]))+"
)
_LEAD_IN = re.compile(
    r"(?i:(?:so,? |and )?(?:the |my )?(?:(?:only|best|correct|right|final|short|shortest|possible|"
    r"available) )*ans(?:wer)?(?: (?:to|for)\b[^:.\n]{0,200}?| \([^()]{0,200}\))?"
    r"(?:[*_]*\s?:| (?:is|was|would be)\b:?))"
    r"|(?:A|Q|(?i:question|response|output|result|solution|assistant))[*_]*:(?=\s|$)"
    r"|(?i:(?:final )?answer)[*_]*[^\S\n]*\n\s*+(?=\S)"
    r"|(?i:sure|certainly|of course|hmm+|(?:great|good) question)[!,.:…](?=\s+\w)"
    r"|(?i:as of|according to|based on)\b[^,.\n]{1,60},(?=\s)"
    r"|(?:I\b|[Nn]ot) ?[^.,;\n]{0,60}?(?:sure|certain|know)\b[^.,;\n]{0,20},? but,?(?=\s)"
    r"|I(?:['’]d| would)? (?:think|believe|guess|say|suppose)(?: that\b)?[,:]?"
    r"(?: it(?:['’]s| is))?(?=\s)"
    r"|(?:[Pp]robably|[Pp]ossibly|[Pp]erhaps|[Mm]aybe),?(?=\s)"
    r"|[Ii]t(?:['’]s(?=\s(?!an?\s[A-Z])[a-z])| is(?=\s[A-Z]))"
)
_HEADING = re.compile(r"([^\n:.!?]{0,160}):[*_]*[^\S\n]*\n\s*+(?=\S)")
_ABOUT_THE_ANSWER = re.compile(r"(?i)\b(?:answer|following|here|sure)\b")
# "A." marks an option in "A. Paris", not in "A. A. Milne", nor in "A. Milne" for a "who" question.
_CHOICE = re.compile(r"\(?[A-E][.:]\s+(?=\w)(?![^\W\d_]\.)")
_HAS_CHOICES = re.compile(r"\bA[.):].*\bB[.):]", re.DOTALL)
_ASKS_WHO = re.compile(r"(?i)\bwho(?:m|se)?\b")
_AGAIN = re.compile(r"[^?]{3,1000}\?[\"”'*_]*")
# Two names at the end of a question: ", Ann Bo or Cy Day?"
OFFER = re.compile(
    r"[,:]\s(?:[Tt]he )?[\"“']?([^\W_a-z][^,:?]*?)[\"”']?,? or (?:[Tt]he )?[\"“']?"
    r"([^\W_a-z][^,:?]*?)[\"”']?\s*\??\s*$"
)


def begin(reply: str, question: str) -> int:
    """Return the place where the answer's sentence begins, after lead-ins."""
    more = _NEXT_QUESTION.search(reply)
    before = _BEFORE.match(reply, 0, more.start() if more else len(reply))
    start = before.end() if before else 0
    for _ in range(8):  # "Q: ...? A: The answer is: ..."
        front = _FRONT.match(reply, start)
        start = front.end() if front else start
        inside = start + reply.startswith(('"', "“", "'"), start)
        lead_in = (
            _LEAD_IN.match(reply, inside)
            or _heading(reply, inside, question)
            or _choice(reply, inside, question)
        )
        end = lead_in.end() if lead_in else _behind_question(reply, inside, question)
        if end == inside:
            break
        start = end
    return start


def _heading(reply: str, start: int, question: str) -> re.Match[str] | None:
    """Match a line that ends in a colon and says no more than the question: "The author is:"."""
    line = _HEADING.match(reply, start) if question else None
    if line is None or adds(_ABOUT_THE_ANSWER.sub("", line[1]), question):
        return None
    offer = OFFER.search(question)
    return None if offer and line[1] in offer.groups() else line


def _choice(reply: str, start: int, question: str) -> re.Match[str] | None:
    """Match the letter of a multiple choice before an answer."""
    letter = _CHOICE.match(reply, start) if question else None
    if letter is None or _HAS_CHOICES.search(question):
        return letter
    return None if _ASKS_WHO.search(question) or reply[letter.end()].islower() else letter


def _behind_question(reply: str, start: int, question: str) -> int:
    """Return the place after a repeated question if more text follows, else `start`."""
    again = _AGAIN.match(reply, start) if question else None
    repeats = again and not adds(again[0], question) and reply[again.end() :].strip()
    return again.end() if again and repeats else start
