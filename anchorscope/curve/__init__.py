"""Knockout: block attention to the exact question tokens, and score the answers again.

Samples whose predicted class flips are Q-Anchored, the others A-Anchored (arXiv 2601.07422, section
3.2). The control blocks an equal number of random question tokens. The knockout is part of the main
run and does not use the generic rules of experiments.
"""
