"""What a language model does here: it answers the prompts, and passes them again under
interventions. Takes prompts and a checkpoint; gives answers, and hidden states at the read-outs
under each condition."""
