"""The judges of the instrument, which are no part of it.

Small models trained on planted facts, worlds in which nothing can be found, and each sample's true
pathway; checks of the tables against what they must show and against what was published; and, in
`simulations`, how often claims are false, intervals cover and signals are found.
"""
