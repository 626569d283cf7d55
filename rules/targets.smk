# The names a user types: every figure of the catalogue, `retrain`.
#
# in:  the catalogue of figures and models
# out: nothing of their own


for figure in cfg.figures:

    rule:
        name:
            figure
        input:
            pictures(figure),


rule retrain:
    input:
        [f"{RESULTS}/models/{name}" for name, model in cfg.models.items() if model.train],
