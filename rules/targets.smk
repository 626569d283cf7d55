# Targets to name on the command line: figures, experiments, evidence, detection and calibration.
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
            paths.pictures(figure),
            texts(figure),
            lambda _, figure=figure: paths.lost([figure]),
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
            lambda _, name=experiment.name: paths.lost(cfg.targets, OF_EXPERIMENT, name),


rule calibration:
    input:
        f"{ROOT}/tables/calibration.csv",
        f"{ROOT}/tables/null-controls.csv",
        paths.pictures("calibration"),


rule:
    name:
        "calibration-experiments"
    input:
        f"{ROOT}/tables/calibration-experiments.csv",


rule evidence:
    input:
        [paths.views_of(figure) for figure in cfg.targets],
        lambda _: paths.lost(cfg.targets),


rule detection:
    input:
        [
            paths.pictures(f"{figure}.{picture}")
            for figure in cfg.targets
            for picture in detection_views.VIEWS
        ],
        lambda _: paths.lost(cfg.targets, OF_DETECTION | (P_TRUE if P_TRUE_NEEDED else {})),


rule detectors:
    input:
        [f"{cell}/probe" for cell in paths.of_targets("detectors", "")],
        [f"{ROOT}/tables/{figure}.samples.csv" for figure in cfg.targets],
        lambda _: paths.lost(cfg.targets),


rule report:
    input:
        f"{ROOT}/report/index.html",
        lambda _: paths.lost(cfg.targets),


rule reproduction:
    input:
        f"{ROOT}/tables/reproduction.csv",


rule:
    name:
        "null-controls"
    input:
        f"{ROOT}/tables/null-controls.csv",


needed, others = cfg.trained()


rule:
    name:
        "retrain-seeds"
    input:
        [f"{RESULTS}/models/{name}.json" for name in others],


rule retrain:
    input:
        [f"{RESULTS}/models/.{name}.fresh" for name in needed],
    log:
        f"{RESULTS}/logs/retrain.log",
    message:
        "all models that figures and calibration need are trained"
    run:
        # These marks stay until all models are trained, so an interrupted `retrain` continues.
        for mark in input:
            os.remove(mark)


if workflow.modifier.is_main_snakefile():
    try:
        studies.check_targets(cfg, workflow)
    except AnchorscopeError as error:
        sys.exit(f"error: {error}")
