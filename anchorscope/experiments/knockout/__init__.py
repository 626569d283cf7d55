"""Knockout: block attention to the exact question tokens and score each layer's probe again.

Samples whose predicted class flips are Q-Anchored, the others A-Anchored (paper section 3.2). The
control blocks as many random question tokens. Knockout is part of the main run and has its own
rules.
"""
