"""Crossing: two frozen answers, each after both questions, show what a probe reads.

A score that adds something read off the question and something read off the answer has a pair term
of 0, however strong both are. The control is a text model that sees how question and answer
overlap. Crossing is part of the main run.
"""
