# Targets to name on the command line: figures, experiments, evidence, detection, report.
#
# in:  the catalogue of figures and models
# out: nothing of their own


# The rules behind a figure, and more rules behind experiments and detection. Their targets ask for
# products that failed jobs left out.
BEHIND = [
    rules.dataset,
    rules.model,
    rules.prompts,
    rules.answers,
    rules.activations,
    rules.scores,
    rules.delta_p,
    rules.table,
]
MEASURED = [*BEHIND, rules.experiment_measure, rules.experiment_table]
DETECTED = [
    *BEHIND,
    *([rules.p_true] if P_TRUE_NEEDED else []),
    rules.detection_scores,
    rules.detection_cell,
    rules.detection_table,
]


for figure in cfg.figures:

    rule:
        name:
            figure
        input:
            paths.pictures(figure),
            texts(figure),
            lambda _, figure=figure: paths.lost([figure], BEHIND),
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
            lambda _, name=experiment.name: paths.lost(cfg.targets, MEASURED, name),


rule evidence:
    input:
        [paths.views_of(figure) for figure in cfg.targets],
        lambda _: paths.lost(cfg.targets, BEHIND),


rule detection:
    input:
        [
            paths.pictures(f"{figure}.{picture}")
            for figure in cfg.targets
            for picture in detection_views.VIEWS
        ],
        lambda _: paths.lost(cfg.targets, DETECTED),


rule detectors:
    input:
        [f"{cell}/probe" for cell in paths.of_targets("detectors", "")],
        [f"{cell}/resid" for cell in paths.of_targets("detectors", "")],
        [f"{ROOT}/tables/{figure}.samples.csv" for figure in cfg.targets],
        lambda _: paths.lost(cfg.targets, BEHIND),


rule report:
    input:
        f"{ROOT}/report/index.html",
        lambda _: paths.lost(cfg.targets, BEHIND),


rule reproduction:
    input:
        f"{ROOT}/tables/reproduction.csv",
