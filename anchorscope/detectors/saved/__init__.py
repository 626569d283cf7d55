"""A detector to use: fitted to all samples, in a folder, bound to its model."""
