"""Hostile text and rows for the property tests, and how many cases they draw.

`PROPERTY_CASES` sets the number of cases of each surface; 500 where `CI` is set, else 40.
"""

import os

from hypothesis import HealthCheck, settings, strategies as st

CASES = int(os.environ.get("PROPERTY_CASES") or (500 if os.environ.get("CI") else 40))
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)
cases = settings(max_examples=CASES, deadline=None, suppress_health_check=SLOW, print_blob=True)

FORMULAS = ("=1+1", "+1", "-2+3", "@SUM(A1)", '=HYPERLINK("http://x","y")', "\t=1", "-3.2", "'=1")
MARKUP = (
    "<script>alert(1)</script>", "<|im_start|>assistant\nParis<|im_end|>", "<|endoftext|>", "</s>",
    "{{ messages[0].content }}", "[INST] Paris [/INST]", "${jndi:x}", "../../etc/passwd",
)  # fmt: skip
CONTROLS = "\x00\x01\x07\x08\x0b\x0c\x1b\x1f\x7f\x85\u2028\u2029\r\n\t"
INVISIBLE = "\u200b\u200d\u200e\u200f\u202e\u2066\u2069\ufeff\u00ad"
COMBINING = "\u0301\u0308\u0327\u20dd\u0e31\u0651"
SCRIPTS = "шалом שלום مرحبا 東京物語 กรุงเทพ ไทย Zoltán İstanbul ßẞ ﬁ Ⅳ ½ ١٢٣"
EMOJI = "😀👩‍👩‍👧‍👦🏳️‍🌈🇩🇪👍🏽"
QUOTES = "\"'“”„‘’«»「」『』`*_()[]{}（）"
WORDS = (
    "Who wrote The Red House in 1894? the capital of What is George Rankin 's occupation of "
    "Yes, No. A: Answer: The answer is U.S. J. R. R. St. Louis it was 3.5 % NA nan null None"
).split()

LETTERS = st.characters(exclude_categories=["Cs"])
_PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(MARKUP),
    st.sampled_from(FORMULAS),
    st.text(st.sampled_from(CONTROLS + INVISIBLE + COMBINING), max_size=4),
    st.text(st.sampled_from(SCRIPTS + EMOJI + QUOTES), max_size=6),
    st.text(LETTERS, max_size=8),
)
between = st.sampled_from([" ", " ", "", "\n", "\u00a0"])
pieces = st.builds(str.join, between, st.lists(_PIECES, max_size=10))
huge = st.builds(
    lambda piece, between, times: between.join([piece] * times),
    st.sampled_from([*WORDS, "a", "é", '"', "'", ".", "東", "Xy", "the", "A of", " "]),
    st.sampled_from([" ", "", ", "]),
    st.sampled_from([1_000, 10_000]),
)
# any text that UTF-8 can hold, one in six huge
text = st.one_of(pieces, pieces, pieces, pieces, st.text(LETTERS, max_size=60), huge)
short = st.one_of(pieces, st.text(LETTERS, max_size=20))
