"""Language models: check and load a checkpoint and its tokenizer, and find the model's parts.

Answers are generated in `anchorscope.answers`, and hidden states are read in `anchorscope.passes`.
"""
