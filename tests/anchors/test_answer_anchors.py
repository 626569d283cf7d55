"""E_A: one label-blind procedure, whatever the answer."""

import inspect

import pytest
from hostile import cases, text
from hypothesis import given, strategies as st

from anchorscope.anchors import sentences
from anchorscope.anchors.answer_anchors import REASONS, locate, no_answer
from anchorscope.anchors.sentences import closer

EXAMPLES = [
    # plain, and where a sentence or line ends
    (" Paris .", "Paris"), (" Paris . right", "Paris"),
    ("Paris. It is the capital of France.", "Paris"),
    ("Paris\nQ: Who wrote Faust?\nA: Goethe", "Paris"), ("Paris\r\nLondon", "Paris"),
    ("Paris\u2028London", "Paris"), ("\n\nParis", "Paris"), ("Yahoo! It is a company", "Yahoo"),
    ("Who's Afraid of Virginia Woolf?", "Who's Afraid of Virginia Woolf"),
    ("Wait... What", "Wait"), ('"Lost!" is by them', '"Lost!" is by them'),
    ("Mr. & Mrs. Bo", "Mr. & Mrs. Bo"), ("Panic! at the Disco", "Panic! at the Disco"),
    ('Iceal E. "Gene" Hambleton', 'Iceal E. "Gene" Hambleton'), ("Paris,", "Paris"),
    ("1. Paris\n2. Rome", "Paris"), ("1.5 km", "1.5 km"),
    # lead-ins
    ("The answer is Paris.", "Paris"), ("the correct answer is: Paris", "Paris"),
    ("Answer: Paris", "Paris"), ("Answer:\nParis", "Paris"), ("A: Paris", "Paris"),
    ("A: The answer is: the Nile.", "Nile"), ("It is Paris.", "Paris"),
    ("Of course, it is Paris.", "Paris"),
    # lists and choices on one line
    ("a) Paris", "Paris"), ("B) Paris", "Paris"), ("1) Mercury 2) Venus", "Mercury"),
    ("1) Mercury, 2) Venus", "Mercury"), ("a) Paris b) Rome", "Paris"),
    ("(1) Mercury (2) Venus", "Mercury"),
    ("1. Apollo 2. It was a mission", "Apollo 2"), ("Apollo 2. A mission", "Apollo 2"),
    ("Vitamin B", "Vitamin B"), ("1) Vitamin B 3 and 2", "Vitamin B 3 and 2"),
    # an opening that is no answer, before what looks like an afterthought
    ("Unfortunately", "Unfortunately"),
    ("Sorry, Wrong Number", "Sorry, Wrong Number"),
    ("Alas, Babylon", "Alas, Babylon"), ("Sally, I think", "Sally"), ("Italy, I guess", "Italy"),
    ("Without a Trace, I think", "Without a Trace"),
    # sentences about the request
    ("Let me think", "Let me think"), ("Let It Be. It is a song.", "Let It Be"),
    ("The User. It is a film.", "User"),
    ("I Want to Hold Your Hand. It is a song.", "I Want to Hold Your Hand"),
    ("I found Paris. Let me see.", "I found Paris"),
    # quotations deny nothing
    ('"To be, or not to be" is from Hamlet', '"To be, or not to be" is from Hamlet'),
    ('"Love, not war" by Lennon', '"Love, not war" by Lennon'),
    # yes and no
    ("No, he was not.", "No"), ("Yes, both are.", "Yes"), ('"Yes, it is"', "Yes"),
    ("Yes, Minister", "Yes, Minister"), ("No, No, Nanette", "No, No, Nanette"),
    ("Nothing, as far as I know", "Nothing, as far as I know"),
    # names and clauses that look like lead-ins
    ("Sure", "Sure"), ("Sure.", "Sure"), ("Surely, Paris", "Surely, Paris"),
    ("Demonstrations are held .", "Demonstrations are held"),
    ("It Is What It Is", "It Is What It Is"), ("It's a Wonderful Life", "It's a Wonderful Life"),
    ("The Truth Is Out There", "Truth Is Out There"), ("A", "A"),
    # full stops that end no sentence
    ("J. R. R. Tolkien", "J. R. R. Tolkien"), ("J.R.R. Tolkien. He wrote it.", "J.R.R. Tolkien"),
    ("Samuel L. Jackson .", "Samuel L. Jackson"), ("Washington, D.C.", "Washington, D.C."),
    ("U.S. Route 66. A road", "U.S. Route 66"), ("the U.S. It is a country", "U.S"),
    ("St. Louis, Missouri.", "St. Louis, Missouri"), ("Dr. No", "Dr. No"),
    ("Robert Downey Jr.", "Robert Downey Jr."), ("Malcolm X. He was a minister", "Malcolm X"),
    ("No. 5", "No. 5"), ("No. He was not", "No"), ("3.5 million.", "3.5 million"),
    ("10 p.m. on Friday", "10 p.m. on Friday"), ("Fiat S.p.A", "Fiat S.p.A"), (".NET", ".NET"),
    ("...Baby One More Time", "Baby One More Time"),
    # numbers
    ("25 December 2010", "25 December 2010"), ("December 25, 2010.", "December 25, 2010"),
    ("-5", "-5"), ("35,124", "35,124"), ("$5 million", "$5 million"), ("100%", "100%"),
    # brackets
    ("Paris (France)", "Paris"), ("[Paris]", "Paris"),
    ("東京（日本）", "東京"),
    # quotes, apostrophes, markup
    ('"Paris."', "Paris"), ("“Paris.” He said so", "Paris"), ("'Paris'", "Paris"),
    ('"Heroes" by David Bowie', '"Heroes" by David Bowie'),
    ('Dwayne "The Rock" Johnson', 'Dwayne "The Rock" Johnson'),
    ('Dwayne "The Rock"', 'Dwayne "The Rock"'), ("O'Brien's", "O'Brien's"),
    ("the Beatles'", "Beatles'"), ("'s-Hertogenbosch", "'s-Hertogenbosch"),
    ("'Til Tuesday", "'Til Tuesday"), ("Rock 'n' Roll", "Rock 'n' Roll"), ("**Paris**", "Paris"),
    ("- Paris", "Paris"), ("«Война и мир».", "Война и мир"),
    # articles
    ("The Who", "Who"), ("a  bicycle", "bicycle"), ("An American in Paris", "American in Paris"),
    ("The The", "The"),
    # other scripts, right to left
    ("東京。日本の首都です。", "東京"), ("「東京」", "東京"), ("القاهرة.", "القاهرة"),
    ("\u200fالقاهرة\u200f؟", "القاهرة"), ("תל אביב", "תל אביב"), ("दिल्ली।", "दिल्ली"),
    ("Михаил Шолохов. Он", "Михаил Шолохов"), ("🎉", "🎉"), ("C++", "C++"),
    # initials are no labels
    ("A. A. Milne", "A. A. Milne"), ("A. Milne", "A. Milne"),
    ("$\\boxed{Paris}$", "Paris"),
    # titles that begin with a bracket or hold punctuation; a base model that runs on
    ("(What's the Story) Morning Glory?", "(What's the Story) Morning Glory"),
    ("(Giant) Spider", "(Giant) Spider"), ("Who?", "Who"), ("Paris.Q: What is it?", "Paris"),
    # double spaces stay inside
    (" New  York .", "New  York"),
]  # fmt: skip
NOTHING = [
    "", "   ", "\n\n", ".", "...", " . right", "?!", '""', "**", "Answer:", "The answer is", "()",
]  # fmt: skip


def found(answer: str, question: str = "") -> str | None:
    """The text of E_A."""
    anchor = locate(answer, question)
    return None if anchor is None else answer[anchor.start : anchor.end]


@pytest.mark.parametrize(("answer", "expected"), [*EXAMPLES, *((said, None) for said in NOTHING)])
def test_the_answer_proper_is_found(answer: str, expected: str | None) -> None:
    assert found(answer) == expected


RESTATED = [
    (
        "What is Will Smith's occupation?",
        "Will Smith is a professional actor.",
        "professional actor",
    ),
    ("When was it published?", "J. K. Rowling wrote it in 1997.", "1997"),
    (
        "Which bridge connects Detroit and Windsor?",
        "The bridge connecting Detroit to Windsor is the Niagara Falls Bridge.",
        "Niagara Falls Bridge",
    ),
    (
        "What sport does Ann Bo play?",
        "Ann Bo is a professional golf player.",
        "professional golf player",
    ),
    ("Who played Luke?", "In the film, Luke was played by Mark Hamill.", "Mark Hamill"),
    ("When did it sink?", "It sank on 15 April 1912.", "15 April 1912"),
    ("When was the war?", "The war was from 1939 to 1945.", "1939 to 1945"),
    ("How many wives had he?", "He had six (6) wives.", "six (6)"),
    ("How many episodes are there?", "There are no episodes.", "no episodes"),
    ("Is Ann older than Bo?", "No, Ann is not older than Bo.", "No"),
    ("Who painted it?", "Painted it? Ann Bo.", "Ann Bo"),
    ("In which year was it sold in Ely?", "In 1999, it was withdrawn from sale in Ely.", "1999"),
    ("In what city was Ann born?", "Ann was born in the city of Ely.", "city of Ely"),
    ("In what year did it happen?", "In France, it happened in 1990.", "1990"),
    ("In how many cities did she play?", "In France, she played in 12 cities.", "12"),
    ("Who was the producer?", "The producer was an actor named Ann Bo.", "Ann Bo"),
    ("What is it called?", 'It is a technique called "Drift" in Japan.', "Drift"),
    ("Where was she born?", "She was born in Vienna, Austria, in 1900.", "Vienna, Austria"),
    ("What does Ann do?", "Ann is a doctor who works in Rome.", "doctor"),
    ("Who founded it?", "The founder was Ann Bo, a painter from Rome.", "Ann Bo"),
    ("What is it called?", 'It is called "Up" by its fans.', "Up"),
    ("What is it called?", 'It is called "Up" or "Down" by its fans.', '"Up" or "Down"'),
    ("What is the device?", "The device is a device called a steam engine.", "steam engine"),
    (
        "Which gods choose who dies?",
        "The beings who choose who dies are known as the Fates.",
        "Fates",
    ),
    ("What lake is it?", "The lake is Loch Ness, a lake in Scotland.", "Loch Ness"),
    ("In Ely what is a serpentine?", "In Ely, the serpentine is a type of bow.", "type of bow"),
    ("When did Ann Bo win the cup?", "Ann Bo Won The Cup: 1994", "1994"),
    ("What does Ann Bo do?", "The answer is: Ann Bo is a singer.", "singer"),
    (
        "It is the best name for which joint of the body?",
        "The best name for the joint is femur.",
        "femur",
    ),
    ("It was made for a war during what years?", "It was made in 2013.", "2013"),
    ("Which film won?", "A Man Called Ove", "Man Called Ove"),
    ("Which film is it?", "The Man Who Knew Too Much", "Man Who Knew Too Much"),
    ("Which Star Trek film came first?", "Star Trek: First Contact", "Star Trek: First Contact"),
    ("Which play is it?", "A play by Arthur Miller", "play by Arthur Miller"),
    ("What was it?", "War of 1812", "War of 1812"),
    ("Which band?", "The Who", "Who"),
    ("Which river runs through Rome?", "Tiber", "Tiber"),
    ("Which place?", "Which place? Rome", "Rome"),
    ("Who wrote Reds?", "Reds was written by Jo Bo, a British writer of novels.", "Jo Bo"),
    ("Who wrote Emma?", "Emma was not written by Ann Bo.", "Emma was not written by Ann Bo"),
]


@pytest.mark.parametrize(("question", "answer", "expected"), RESTATED)
def test_an_answer_that_restates_its_question_keeps_what_it_adds(
    question: str, answer: str, expected: str
) -> None:
    assert found(answer, question) == expected


# Sentences whose answer proper is not looked for.
LEFT = [
    ("", "1. There is one."),
    ("", "He was born in London, England."),
    ("", "The capital of France is Paris."),
    ("", "George Rankin's occupation is politician."),
    ("", "Jaws was directed by Steven Spielberg."),
    ("", "Sure! The capital of France is Paris."),
    ("", "Unfortunately, I couldn't find it."),
    ("", "Unfortunately, the answer is Paris."),
    ("", "Sorry, I don't know."),
    ("", "Without more context, I can't say."),
    ("", "Okay, so the user asks for the capital of France. The capital is Paris."),
    ("", "The user is asking about France. Let me think. It is Paris."),
    ("", "The question asks for a city.\n\nParis"),
    ("", "You asked for a city. Paris."),
    ("", "I need to recall the capital. I think it is Paris."),
    ("", '"Do not go gentle" was written by Dylan Thomas.'),
    ("", "It was not written by Dylan Thomas."),
    ("Who wrote it?", "J. K. Rowling wrote it in 1997."),
    ("What is the capital of France?", "Paris is the capital of France."),
    ("Who is the president of France?", "Emmanuel Macron is the president."),
    ("Which animal is it?", "The rabbit is the animal."),
    ("Which team won?", "I think Arsenal won."),
    ("Who did it?", "Ann Bo did."),
    ("Who won the cup?", "France won the cup by beating Brazil."),
    ("What is the largest planet?", "Jupiter is the largest planet near our sun."),
    ("Where does iron come from in Australia?", "Iron comes from Australia."),
    ("who sings it", "the song is sung by adele and was released in 2011"),
    ("When did the film of 2006 begin?", "The film of 2006 began in 2006."),
    ("When did Ann join?", "Ann joined when she was young."),
    ("Are Ann and Bo actors?", "Ann and Bo are actors."),
    ("Who is younger, Ann Lee or Bo Day?", "Ann Lee is younger, but not by much."),
    ("what is the capital of france", "what is the capital of france: paris"),
    ("It was played in what city in Ohio?", "It was played in Dayton City in Ohio."),
    ("Ann lives in a suburb of what city?", "Bo lives in a suburb of Ely."),
    ("Which is oldest, Emma or Ivanhoe?", "Ivanhoe was born first, Emma."),
    ("Which show had rabbits?", 'The show "Big Ben" uses cars as devices.'),
    ("Who is older, Ann or Bo?", "Bo is older than Ann."),
    ("What genre is Ayr?", "Ayr is a genre of fantasy fiction."),
    ("Which genus has more species?", "The genus Apium has more species."),
    ("What is Lima the capital of?", "Lima is the capital of the land of Peru."),
    ("What is Lima the capital of?", "The capital of Peru is Lima."),
    ("Against which town did Ayr fight the war?", "The men of Ayr fought the war against Ely"),
    ("Who beat Bo in a chess match?", "Bo beat Ann Day in a chess match."),
    ("What does Fernanda Bo do?", "Fernando Bo is a professional gamer."),
    ("Who is the sister of Anna Bo?", "Hanna Bo is the sister of Anna Bo."),
    ("Who is the father of John Smith?", "Joan Smith is his father."),
    ("Who is the son of Maria Curie?", "Marie Curie is."),
    ("Which daughter of Maria Curie won?", "Marie Curie won."),
    ("In which country did it happen?", "In France, it happened in 1990."),
    ("In what century did it happen?", "In the 19th century, it happened often."),
    ("Which school is it?", "It is the school of Ely, and the school of Ely is old."),
    ("What is the story?", "The story is a classic tale, set in 1885."),
    ("Which novel by Ann Bo has a cat?", 'A cat is in Ann Bo\'s novel "Drift".'),
    ("What weapon is it?", "The weapon is a bow made of oak, often with a long string."),
    ("What breed is it?", "The breed is a breed created by a farmer."),
    ("Who made it?", "The maker was:\n\nA. John B. Bo"),
    (
        "The firm with the Remote Call (RC) has its seat in which city?",
        "The firm with the Remote Call (RC) has its seat in Berlin.",
    ),
    ("The show sold more than how many copies?", "The show sold more than 1000 copies."),
    ("Who plays Max?", "Max is played by a young, talented actor named Al Day."),
    ("What does it use as a fuel?", 'It uses a fuel called "Luminium" which'),
    ("What did Perec write?", "Perec wrote Life, a User's Manual."),
    ("What is the show?", "The show is doctor who."),
]


@pytest.mark.parametrize(("question", "answer"), LEFT)
def test_the_finder_is_not_sure_of_what_it_leaves_whole(question: str, answer: str) -> None:
    anchor = locate(answer, question)
    assert anchor is not None and not anchor.sure


@pytest.mark.parametrize(
    ("question", "answer", "sure"),
    [
        ("Who is it?", "Ann Bo", True), ("Who is the poet?", "The poet is Ann Bo.", True),
        ("Who is it?", "Ann painted, Bo wrote", False), ("Who is it?", "Ann Bo " * 8, False),
        ("", "Ann Bo is a painter.", False), ("", "The Man Who Is Thursday", True),
        ("What is the capital of Florida?", "The capital of Florida is Miami.", True),
        ("What is the capital of Florida?", "Miami, I think.", True),
        # a preposition, another new part, a clause, and a heading
        ("What is the capital of Florida?", "Miami in Dade.", False),
        ("Who wrote Emma?", "Ann Bo, who was born in Ely, wrote Emma.", False),
        ("Who wrote Emma?", "Emma was written by the author of Emma.", False),
        ("Which band is older, Poor Old Lu or Mumm?", "Poor Old Lu", True),
        ("Is Ely in Essex?", "No, Ely is in Kent.", True), ("Is Ely in Essex?", "Kent", False),
        ("Quelle est la capitale ?", "La capitale est Paris en France.", False),
        ("Who is it?", "Maybe Baby", False), ("Who is it?", "Ann or Bo", False),
        ("Who is it?", "That's Ann Bo", False), ("Who is it?", "Ann Bo, of course", False),
        ("Who is it?", "I remember a man", False), ("Who is it?", "Let me think", False),
    ],
)  # fmt: skip
def test_the_finder_is_sure_of_short_answers_that_are_no_clause(
    question: str, answer: str, sure: bool
) -> None:
    anchor = locate(answer, question)
    assert anchor is not None and anchor.sure is sure


@pytest.mark.parametrize(
    "unit",
    [
        "was ",
        "the answer is ",
        "Q: A: ",
        "(a) ",
        '"',
        "Who? ",
        "not ",
        "東",
        "12 ",
        "<b>",
        "1,",
        " ‘a",
        "He is “",
        "ا",
    ],
)
def test_a_reply_of_100_000_characters_is_read(unit: str) -> None:
    said = unit * (100_000 // len(unit))
    for question in ("Who wrote it?", "How many are there?", "When was it?"):
        anchor = locate(said, question)
        assert no_answer(said, question, anchor, finished=True) in (None, *REASONS)


def test_the_finder_is_given_question_and_reply_alone() -> None:
    assert list(inspect.signature(locate).parameters) == ["reply", "question"]
    names = ["reply", "question", "anchor", "finished"]
    assert list(inspect.signature(no_answer).parameters) == names


PIECES = [*"abTJ3 .,!?'\"()\n:*-’“”東。ا", "the ", "It is ", "St. ", "U.S. ", "The answer is"]
ANSWERS = st.lists(st.sampled_from(PIECES), max_size=20).map("".join) | text


QUESTIONS = st.sampled_from(
    ["", "Who wrote it?", "When was it?", "How many are there?", "Is it so?", "It is in what city?"]
)


@cases
@given(ANSWERS, QUESTIONS)
def test_a_span_lies_on_one_line_without_white_space_at_its_edges(
    answer: str, question: str
) -> None:
    text = found(answer, question)
    if text is not None:
        assert text and text == text.strip()
        assert not set(text) & set(sentences.NEWLINES)


@cases
@given(ANSWERS, st.text(max_size=20))
def test_what_stands_on_later_lines_does_not_matter(answer: str, later: str) -> None:
    # A line break right after a lead-in's colon is no end, nor are line breaks before the answer.
    first = answer.replace(":", "").replace("：", "")
    if locate(first + "\n") is not None:
        assert locate(first + "\n" + later) == locate(first + "\n")


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("Paris .", 5, 6), ("Paris.\n", 5, 5), ("Paris\n.", 5, 5),
        ("Paris (pop. 2.1 million)\n", 5, 24), ("Jr.\n", 3, 3), ("東京。", 2, 2),
        ("Paris", 5, None), ("3.5", 0, None), ("U.S. . right", 0, 5), ("U.S. Navy", 0, None),
    ],
)  # fmt: skip
def test_the_closer_is_the_first_line_break_or_full_stop(
    text: str, start: int, expected: int | None
) -> None:
    assert closer(text, start) == expected
