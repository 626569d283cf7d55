"""The card of a detector: what it is, how to use it, what it beats, where it fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FLOORS = {
    "answer": "text of the exact answer",
    "question": "text of the question",
    "response": "text of the response",
    "text": "text of question and response",
}
"""The text models, in words."""
OTHERS = {
    "probe": "the detector",
    "resid": "its `resid/final` variant",
    "before": "a probe before the answer is read",
}


def text(config: Mapping[str, Any]) -> str:
    """The card in Markdown, from the content of config.json."""
    model, binding, report = config["model"], config["binding"], config["report"]
    probe = config["probes"][0]
    name = name_of(model, binding["family"])
    revision = f" (revision `{model['revision']}`)" if model.get("revision") else ""
    sections = [
        f"# Detector of wrong answers of {name}",
        f"Gives each answer of {name}{revision} a probability of being wrong, from the hidden "
        f"state that the model has when it has read its answer: one logistic regression on "
        f"`{probe['readout']}` of layer {probe['layer']}. Fitted to {report['n']:,} answers, "
        f"{report['n_wrong']:,} of them wrong.",
        _bullets(report["verdicts"]),
        "## Use",
        _use(config),
        "## What it is worth",
        _worth(report),
        "## What it reads",
        _reads(report),
        "## Where it fails",
        _bullets(_limits(config)),
        "## Made with",
        _facts(config),
    ]
    return "\n\n".join(sections) + "\n"


def name_of(model: Mapping[str, str | None], family: str) -> str:
    """The model's name, without its owner or folder; its family where none is known."""
    return str(model.get("name") or family).rstrip("/").rpartition("/")[2]


def shown(estimate: Mapping[str, float | None]) -> str:
    """An estimate with its interval, or that there is none."""
    if estimate["value"] is None:
        return "not known"
    value, low, high = (_number(estimate[name]) for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def _number(value: float | None) -> str:
    """Three digits, a real minus sign, and no minus before a zero."""
    if value is None:
        return "?"
    text = f"{value:.3f}".replace("-", "−")
    return text.removeprefix("−") if not float(f"{value:.3f}") else text


def _use(config: Mapping[str, Any]) -> str:
    probes = {probe["readout"]: probe for probe in config["probes"]}
    lines = [
        "```python",
        "import anchorscope",
        "",
        'detector = anchorscope.load("<this folder>")',
        'rows = [{"question": "Who wrote Emma?", "response": "Jane Austen"}]',
        "detector.score(model, tokenizer, rows)  # p_wrong for each row",
        "```",
        "",
        "Rows without a `response` are answered by the model. From a shell: "
        "`anchorscope detect score <this folder> --rows rows.jsonl`.",
    ]
    if residual := probes.get("resid/final"):
        lines += [
            "",
            f"Where another engine serves the model, hand `detector.score_states(states)` the "
            f"residual stream after block {residual['layer']} (`hidden_states"
            f"[{residual['layer'] + 1}]` in transformers), a row of {residual['width']} numbers "
            f"for each answer, at {config['position']}.",
        ]
    return "\n".join(lines)


def _worth(report: Mapping[str, Any]) -> str:
    """The measures out of fold, and the comparisons."""
    of, gains = report["out_of_fold"], report["gains"]
    lines = [
        f"Out of fold: no answer was scored by a probe that had seen it, or another of its "
        f"subject. Intervals cover {report['level']:.0%} and are clustered by subject or question "
        f"({report['n_clusters']:,} clusters); the probes are held fixed.",
        "",
        "what reads | AUROC | detector minus it, paired",
        "--- | --- | ---",
    ]
    for name, words in {**OTHERS, **FLOORS}.items():
        if name in of:
            gain = shown(gains[name]) if name in gains else ""
            lines.append(f"{words} | {shown(of[name]['auroc'])} | {gain}")
    measures = {
        "auprc": "AUPRC of wrong answers",
        "brier": "Brier score",
        "accuracy_90": "right among the 90 % least likely wrong",
        "accuracy_80": "right among the 80 % least likely wrong",
    }
    both = [name for name in ("probe", "resid") if name in of]
    lines += ["", " | ".join(["measure", *(OTHERS[name] for name in both)])]
    lines.append(" | ".join(["---"] * (1 + len(both))))
    for key, words in measures.items():
        lines.append(" | ".join([words, *(shown(of[name][key]) for name in both)]))
    if "resid" in gains:
        lines += ["", f"The `resid/final` variant costs {shown(gains['resid'])} of AUROC."]
    return "\n".join(lines)


def _reads(report: Mapping[str, Any]) -> str:
    """What crossing and the pathway say."""
    lines, crossing, pathway = [], report["crossing"], report["pathway"]
    if crossing is None:
        lines.append("No answers could be exchanged between questions, so that this is not known.")
    else:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in crossing["shares"].items())
        lines.append(
            f"Answers exchanged between questions split the score exactly: {shares}. Pair term "
            f"of right answers {shown(crossing['pair_right'])} logits "
            f"({crossing['n_right']:,} pairs), truth of the pair {shown(crossing['truth'])}; "
            f"verdict: {crossing['reads']}."
        )
    if pathway is None:
        lines.append(
            "The column `pathway` is empty: too few verdicts, or too many, flip when attention "
            "to the exact question tokens is cut."
        )
    else:
        lines.append(
            f"The column `pathway` predicts whether the verdict would flip without the exact "
            f"question tokens (Q: {pathway['share']:.0%} of the answers). AUROC out of fold "
            f"{shown(pathway['auroc'])}; by how unsure the score is alone "
            f"{shown(pathway['auroc_of_the_score'])}."
        )
    return "\n\n".join(lines)


def _limits(config: Mapping[str, Any]) -> list[str]:
    report = config["report"]
    share = report["n_wrong"] / report["n"]
    return [
        "It knows questions like those it was fitted to. On other kinds of questions measure it "
        "anew: `anchorscope detect eval`.",
        f"`p_wrong` assumes that {share:.0%} of the answers are wrong, as among those it was "
        "fitted to; where that is different, start from `p_balanced`.",
        "Other weights, a finetuned or quantised model, another tokenizer, chat template or prompt "
        "give other states; what differs is refused.",
        "Answers without an exact answer, such as refusals, get no score but a reason.",
        "Right and wrong are by matching gold answers: what the labels miss, it cannot learn.",
    ]


def _facts(config: Mapping[str, Any]) -> str:
    binding, counts = config["binding"], config["report"]["counts"]
    lines = [
        f"anchorscope {config['anchorscope']}; prompt style `{binding['style']}`, number format "
        f"{binding['dtype']}; layers chosen by the folds: "
        f"{', '.join(map(str, config['report']['layers_of_folds']))}."
    ]
    if dropped := counts.get("dropped"):
        why = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        lines.append(f"Of {counts['in']:,} rows, left out: {why}.")
    return "\n\n".join([*lines, "All numbers and hashes: `config.json`."])


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
