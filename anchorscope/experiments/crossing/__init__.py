"""Crossing: two frozen answers, each behind both questions, tell what a probe reads.

A sum of what is read off the question and what is read off the answer has a pair term of 0, however
strong both are. Control: a text model that sees how question and answer overlap. Part of the main
run.
"""
