"""Detectors: methods that say of each answer how likely it is wrong, and what they are worth.

A method is fitted to labelled answers and gives a scorer of others; see `method`. `registry` lists
those of `methods/`, `out_of_fold` scores a cell with each, `tables/` and `pictures/` compare them.
`saved/` holds what is used elsewhere: a method that is linear in the states, fitted to all
samples, in a folder.
"""
