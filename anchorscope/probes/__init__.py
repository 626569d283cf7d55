"""Probes of hidden states: fitting, calibration, out-of-fold scores, text baselines, bootstrap.

The package takes features, float32 [layers, samples, width], and labels. It returns scores,
bootstrap draws and intervals.
"""
