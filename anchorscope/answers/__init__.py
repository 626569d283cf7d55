"""Answers: generate the model's answer to each prompt, find its exact tokens, and label it.

The package turns prompts into token ids, generates answers, and freezes the ids that later stages
pass. A user's own rows come in here, too.
"""
