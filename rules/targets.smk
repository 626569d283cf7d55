# The names a user types: every figure of the catalogue, `retrain`.
#
# in:  the catalogue of figures and models
# out: nothing of their own


localrules:
    retrain,


for figure in cfg.figures:

    rule:
        name:
            figure
        input:
            pictures(figure),


rule retrain:
    input:
        [f"{RESULTS}/models/.{name}.fresh" for name, model in cfg.models.items() if model.train],
    log:
        f"{RESULTS}/logs/retrain.log",
    message:
        "all models are trained"
    run:
        # Marks stay until all are trained: interrupted, it goes on with what is left.
        for mark in input:
            os.remove(mark)
