# Targets to name on the command line: figures, experiments, evidence, detection, report.
#
# in:  the catalogue of figures and models
# out: nothing of their own


# The rules behind a figure, and more rules behind experiments and detection. Their targets ask for
# products that failed jobs left out.
STAGES = "dataset model prompts answers activations scores delta_p table".split()
BEHIND = {name: getattr(rules, name) for name in STAGES}
MEASURED = BEHIND | {
    "experiment_measure": rules.experiment_measure,
    "experiment_table": rules.experiment_table,
}
DETECTED = BEHIND | {
    **({"p_true": rules.p_true} if P_TRUE_NEEDED else {}),
    "detection_scores": rules.detection_scores,
    "detection_cell": rules.detection_cell,
    "detection_table": rules.detection_table,
}


for figure in cfg.figures:

    rule:
        name:
            figure
        input:
            paths.pictures(figure),
            texts(figure),
            lambda _, figure=figure: lost(cfg, [figure], BEHIND),
        message:
            f"{figure} is drawn"


for experiment in EXPERIMENTS.values():

    rule:
        name:
            experiment.name
        input:
            [
                paths.pictures(f"{figure}.{stem}")
                for figure in cfg.targets
                for stem in experiment.pictures
            ],
            lambda _, name=experiment.name: lost(cfg, cfg.targets, MEASURED, name),


rule evidence:
    input:
        [paths.views_of(figure) for figure in cfg.targets],
        lambda _: lost(cfg, cfg.targets, BEHIND),


rule detection:
    input:
        [
            paths.pictures(f"{figure}.{picture}")
            for figure in cfg.targets
            for picture in detection_views.VIEWS
        ],
        lambda _: lost(cfg, cfg.targets, DETECTED),


rule detectors:
    input:
        [f"{cell}/probe" for cell in paths.of_targets("detectors", "")],
        [f"{cell}/resid" for cell in paths.of_targets("detectors", "")],
        [f"{ROOT}/tables/{figure}.samples.csv" for figure in cfg.targets],
        lambda _: lost(cfg, cfg.targets, BEHIND),


rule report:
    input:
        f"{ROOT}/report/index.html",
        lambda _: lost(cfg, cfg.targets, BEHIND),


rule reproduction:
    input:
        f"{ROOT}/tables/reproduction.csv",


# Targets of the run that compares the instrument with known truth: they fail and name its command.
for target in [] if cfg.validation else targets.PROOF:

    rule:
        name:
            target
        input:
            lambda _, target=target: sys.exit(f"error: {targets.elsewhere(target)}"),
