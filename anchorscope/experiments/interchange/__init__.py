"""Interchange: the same frozen answer behind another question, beside the knockout's groups.

Control: a placebo question, behind which the answer keeps its label. Part of the main run.
"""
