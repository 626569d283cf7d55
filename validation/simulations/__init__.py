"""Simulated scores for which the true claims are known, and commands that test claims on them."""
