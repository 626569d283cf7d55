"""Exact question tokens (E_Q), exact answer tokens (E_A), and the labels of answers.

The package takes the texts of questions and answers, and returns character spans, tokens and
labels. It needs no model.
"""
