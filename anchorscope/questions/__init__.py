"""Tables of questions from any dataset or invented world, with their folds and prompts.

The rows come from the hub, local files or a world's settings.
"""
