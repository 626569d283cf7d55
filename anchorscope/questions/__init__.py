"""Any dataset or invented world as one table of questions, its folds, and the prompts made of it.
Takes rows of the hub, of local files or of a world's recipe; gives tables with documented
columns."""
