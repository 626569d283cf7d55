"""Detectors: methods that predict whether an answer is wrong, and their evaluation.

The module `method` says what a method is: it learns from labelled answers, and then scores answers
whose labels it cannot see. `registry` lists all methods. `out_of_fold` scores a cell with each. The
modules `evaluation`, `reads` and `self_awareness` make the tables, which `comparisons` draws.
`export` turns the probes of a cell into a `detector` that can be used elsewhere.
"""
