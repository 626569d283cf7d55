"""Crossing: score the answers of two questions after both questions, to see what a probe reads.

If a score only adds a part read off the question to a part read off the answer, its pair term is 0,
however large the parts are. The control is the text imitator, which sees how question and answer
overlap. Crossing is part of the main run.
"""
