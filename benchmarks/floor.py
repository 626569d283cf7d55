"""The least time that the measured passes can take, from operations, bytes and the machine's rates.

Every token behind the shared prefix must pass every layer once: 2 × parameters operations for the
matrix products, and 4 × width × keys for attention. The last layer's MLP is needed at the
read-out token alone. Each call reads the weights once. The floor is the larger of operations at
the rate of a matrix product of the same shape, and bytes at the rate of reading memory.
"""

import timing
from workloads import Workload, answers

from anchorscope.passes import planning


def needed(work: Workload) -> dict[str, int]:
    """What one measurement of a workload needs: tokens, operations and bytes."""
    plan = planning.plan(answers(work), conditions={"knockout": {}}, batch_tokens=8192)
    rows = [row for batch in plan.batches for row in batch.rows]
    spans = [(plan.head, len(plan.passed(row).input_ids)) for row in rows]
    tokens = plan.head + sum(end - start for start, end in spans)
    keys = sum(range(plan.head + 1)) + sum(
        (end * (end + 1) - start * (start + 1)) // 2 for start, end in spans
    )
    shape = work.shape
    attention, mlp = 4 * shape.width**2, 3 * shape.width * shape.inner
    weights = shape.layers * (attention + mlp)
    operations = 2 * weights * tokens - 2 * mlp * (tokens - len(rows))
    operations += 4 * shape.width * shape.layers * keys
    return {"tokens": tokens, "operations": operations, "bytes": 4 * weights}


def of(work: Workload, seconds: float, kind: str) -> dict[str, float]:
    """The floor in seconds, and the share of it in what was measured."""
    least, shape = needed(work), work.shape
    rate = timing.gemm_rate(size=(640, shape.width, shape.inner), kind=kind)
    reading = timing.copy_rate(kind=kind)
    floor = max(least["operations"] / rate, least["bytes"] / reading)
    return {
        **least,
        "gemm_gflops": round(rate / 1e9, 1),
        "read_gb_s": round(reading / 1e9, 1),
        "floor_seconds": round(floor, 4),
        "share": round(floor / seconds, 3),
    }
