"""Columns that many tables share, and what they hold."""


def interval_of(column: str, ends: str) -> dict[str, str]:
    """Describe the columns `<ends>_low` and `<ends>_high`, which hold the interval of `column`."""
    return dict.fromkeys((f"{ends}_low", f"{ends}_high"), f"interval of `{column}`")


def with_interval(column: str, meaning: str) -> dict[str, str]:
    """Describe a column that holds an estimate, and the columns of its interval."""
    return {column: meaning} | interval_of(column, column)


READOUT_COLUMNS = {"site": "attn, mlp or resid", "position": "at which token", "layer": "the layer"}
SIZE_COLUMNS = {"n": "samples of the group", "n_paired": "samples of the group that count"}
GROUP_COLUMNS = {
    "label": "label of the samples: `0` right, `1` wrong, or `all`",
    "anchor": "`Q`, `A` or `all`, by the knockout's flips at that layer",
    **SIZE_COLUMNS,
}
FLIP_COLUMNS = {
    **with_interval("flips", "share whose predicted class flips"),
    **with_interval("random", "the measure under the control"),
    **with_interval("contrast", "the paired difference of measure and control"),
}
DELTA_COLUMNS = {
    **with_interval("delta_p", "mean ΔP in percentage points"),
    **with_interval("random_delta_p", "the measure under the control"),
    **with_interval("delta_p_contrast", "the paired difference of measure and control"),
}
FLAG_COLUMNS = {
    "headline": "whether this is the headline layer",
    "thin": "too few samples or clusters to rely on",
}
RECURRING = {
    "id": "the sample's id",
    "model": "key of the model",
    "dataset": "key of the dataset",
    **READOUT_COLUMNS,
    "condition": "what was blocked or swapped",
    "fold": "the sample's outer fold",
    **GROUP_COLUMNS,
    "n_clusters": "number of clusters of samples that share a subject or question",
    **FLAG_COLUMNS,
    "probe_auc": "AUC of the clean probe",
    **interval_of("probe_auc", "auc"),
    "predicts": "whether the interval of the AUC is above 0.6",
    "floor": "the hardest text model, which the probe beats least clearly",
    "floor_auc": "AUC of this text model",
    **with_interval("gain", "`probe_auc` minus `floor_auc` (at least 0.5), paired"),
    "delta_p": "mean ΔP, under the knockout unless `condition` says otherwise",
    **interval_of("delta_p", "ci"),
    "flip_share": "share of flips, under the knockout unless `condition` says otherwise",
    **interval_of("flip_share", "flip"),
    "random_flip_share": "share of flips under the random control",
    "inflation": "factor, at least 1, by which refitting the probes widened the interval",
}
"""Name of a column that recurs in many tables → what it holds."""


def recurring(*names: str) -> dict[str, str]:
    """Return {name: description} of some of the columns in `RECURRING`."""
    return {name: RECURRING[name] for name in names}
