"""Tables of questions from any dataset or invented world, with their folds and prompts.

Takes rows of the hub, of local files or of a world's recipe. Gives tables with documented columns.
"""
