"""Tests of the instrument's validity, kept apart from the instrument.

The package trains small models on planted facts, builds worlds in which nothing can be found, and
determines each sample's true pathway. It checks the tables against requirements and against the
published results. `simulations` measures how often claims are false, intervals cover and signals
are found.
"""
