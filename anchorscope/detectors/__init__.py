"""Detectors: methods that predict whether an answer is wrong, and their evaluation.

A method is fitted to labelled answers and returns a scorer of other answers (`method`). `registry`
lists the methods of `methods/`. `out_of_fold` scores a cell with each of them. `evaluation`,
`reads` and `transfer` make the tables, and `comparisons` draws them. `detector` turns the stored
probes of a cell into a detector that can be used elsewhere.
"""
