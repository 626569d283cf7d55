"""Forward passes: hidden states of each sample under every intervention.

The package holds the interventions as data, the partners, the plan of all passes, the runner, and
the hidden states on disk. It takes answers and a loaded model. It returns the activations of every
condition at the read-out tokens.
"""
