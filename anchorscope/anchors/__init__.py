"""Exact question tokens (E_Q), exact answer tokens (E_A), and the labels of answers.

Takes the texts of questions and answers. Gives character spans, tokens and labels. Needs no model.
"""
