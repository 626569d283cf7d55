"""Tests of the instrument's validity, kept apart from the instrument.

The package trains small models on planted facts, builds worlds in which some claims must be false,
and determines each sample's true pathway. It checks tables against requirements and against
published results. `simulations` measures how often claims are wrong, how often intervals cover, and
how often signals are found.
"""
