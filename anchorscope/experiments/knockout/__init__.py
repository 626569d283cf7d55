"""Knockout: attention to the exact question tokens is cut, and each layer's probe asked again.

Samples whose predicted class flips are Q-Anchored, the others A-Anchored (paper section 3.2).
Control: as many random question tokens are cut. Part of the main run, with rules of its own.
"""
