"""Crossing: score the answers of two questions after each question, to see what a probe reads.

If a score is a function of the question plus a function of the answer, its pair term is 0, however
large these functions are. The control is the text imitator, which sees how question and answer
overlap. Crossing is part of the main run.
"""
