"""Forward passes: hidden states of each sample under every intervention.

The package defines the interventions, finds partners, plans the passes, runs them, and stores the
hidden states. It takes answers and a loaded model. It returns the activations of every condition at
the read-outs.
"""
