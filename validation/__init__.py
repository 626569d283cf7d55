"""The instrument held against known truth: small models trained on planted facts, null controls and
variants of the method. Takes recipes; gives checkpoints, each sample's true pathway, and tables
of how well ΔP recovers it."""
