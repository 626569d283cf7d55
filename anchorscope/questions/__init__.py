"""Tables of questions from any dataset, with their folds and prompts.

The rows come from the hub or from local files.
"""
