"""How fast and how close the batched probes are, beside scikit-learn on one BLAS thread.

    python benchmarks/probes.py [--layers 8] [--samples 900] [--width 64] [--every 8]

Times all probes of a cell (5 outer folds × (5 inner + 1) × 6 penalties, at every layer) side by
side: a round fits them batched, then every `--every`-th of them with scikit-learn, whose time is
scaled up. Prints both, their ratio, and the largest difference of an out-of-fold probability from
scikit-learn as it comes and converged.
"""

import argparse
import os
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from anchorscope.probes import probes

GRID = np.array([1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0])


def activations(layers: int, n: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated features [layers, n, width] whose signal grows with depth, and labels."""
    random = np.random.default_rng(0)
    z = random.integers(0, 2, n)
    mixing = random.normal(size=(layers, width, width)) * np.logspace(0, -2, width)[:, None]
    x = random.normal(size=(layers, n, width)) @ mixing
    for layer in range(layers):
        x[layer, :, :8] += 0.6 * layer * z[:, None]
    return x.astype(np.float32), z


def problems(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Training masks [problems, n] and penalties [problems]."""
    random = np.random.default_rng(1)
    outer, masks = random.permutation(n) % 5, []
    for k in range(5):
        inner = random.permutation(n) % 5
        masks += [outer != k, *((outer != k) & (inner != i) for i in range(5))]
    return np.repeat(np.stack(masks), len(GRID), axis=0), np.tile(GRID, len(masks))


def one_by_one(
    x: np.ndarray, z: np.ndarray, masks: np.ndarray, c: np.ndarray, chosen: list[int], **how: float
) -> tuple[float, list[np.ndarray]]:
    """Seconds scaled up to all problems, and P(z = 1) of the chosen ones at each layer."""
    start, found = time.perf_counter(), []
    for layer in x.astype(np.float64):
        for i in chosen:
            scaler = StandardScaler().fit(layer[masks[i]])
            rows = scaler.transform(layer)
            model = LogisticRegression(C=c[i], **how).fit(rows[masks[i]], z[masks[i]])
            found.append(model.predict_proba(rows)[:, 1])
    return (time.perf_counter() - start) * len(c) / len(chosen), found


def largest(p: np.ndarray, found: list[np.ndarray], masks: np.ndarray, chosen: list[int]) -> float:
    """Largest difference on rows that the problem did not learn from."""
    reference = np.stack(found).reshape(len(p), len(chosen), -1)
    return float(np.abs(p[:, chosen] - reference)[:, ~masks[chosen]].max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = {"layers": 8, "samples": 900, "width": 64, "every": 8, "rounds": 3}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    x, z = activations(args.layers, args.samples, args.width)
    masks, c = problems(args.samples)
    chosen = list(range(0, len(c), args.every + 1))
    inputs = [torch.as_tensor(value) for value in (x, z, masks, c)]
    print(f"{args.layers} layers, {args.samples} × {args.width}, {len(c)} probes a layer")
    ratios = []
    for _ in range(args.rounds):
        start = time.perf_counter()
        solved = probes.fit(*inputs, device=args.device)
        p = torch.sigmoid(solved.logits(inputs[0])).cpu().numpy()
        batched = time.perf_counter() - start
        usual, found = one_by_one(x, z, masks, c, chosen)
        ratios.append(usual / batched)
        print(
            f"batched {batched:.2f} s ({solved.iterations} steps, {solved.unconverged} unsolved), "
            f"scikit-learn {usual:.1f} s, ratio {ratios[-1]:.1f}"
        )
    _, exact = one_by_one(x, z, masks, c, chosen, tol=1e-10, max_iter=100_000)
    print(f"median ratio {np.median(ratios):.1f}")
    print("largest difference from scikit-learn")
    print(f"  as it comes: {largest(p, found, masks, chosen):.1e}")
    print(f"  converged:   {largest(p, exact, masks, chosen):.1e}")


if __name__ == "__main__":
    main()
