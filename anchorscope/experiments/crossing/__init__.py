"""Crossing: score the answers of two questions after both questions, to see what a probe reads.

A score that adds something read off the question and something read off the answer has a pair term
of 0, however strong both are. The control is the text imitator, which sees how question and answer
overlap. Crossing is part of the main run.
"""
