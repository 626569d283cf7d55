"""What is done to a sample, and what the model computes then: interventions as data, partners, the
plan of all passes, the runner, and hidden states on disk. Takes answers and a loaded model; gives
the activations of every condition at the read-out tokens."""
