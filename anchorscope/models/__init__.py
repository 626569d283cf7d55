"""Language models: load a checkpoint and generate the answers to prompts.

The package checks checkpoints and tokenizers, generates and labels answers, and freezes their token
ids. Hidden states are read in `anchorscope.passes`.
"""
