"""Simulated scores, of which it is known what may be claimed: each module is run by itself."""
