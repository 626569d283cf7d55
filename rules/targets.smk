# The names a user types: every figure of the catalogue, `all`, `retrain`.
#
# in:  the catalogue of figures and `targets` of the config
# out: nothing of their own


PICTURES = ("vl.json", "html", "svg", "pdf", "png")


def pictures(figure):
    return expand(f"{ROOT}/figures/{figure}.{{kind}}", kind=PICTURES)


rule all:
    default_target: True
    input:
        [pictures(figure) for figure in cfg.targets],


for figure in cfg.figures:

    rule:
        name:
            figure
        input:
            pictures(figure),


rule retrain:
    input:
        [f"{RESULTS}/models/{name}" for name, model in cfg.models.items() if model.train],
