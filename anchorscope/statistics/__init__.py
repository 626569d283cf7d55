"""Statistics of samples: order, bootstrap, intervals, strength of probes, and power."""
