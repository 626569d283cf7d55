"""Detectors: methods that say of each answer how likely it is wrong, and what they are worth.

A method is fitted to labelled answers and gives a scorer of others; see `method`. `registry` lists
those of `methods/`, `out_of_fold` scores a cell with each, `tables/` and `pictures/` compare them.
`export` makes a `detector` of a cell's stored probes, to use elsewhere.
"""
