"""One layer of GPT-2 small, forward, on the rungs of fusion, beside torch.

    python -m benchmarks.transformer [--dtype f32] [--library off] [--save FILE]

Batch 8, sequence 1024, width 768, 12 heads.  Per rung: time, kernels launched, peak memory beyond the arguments.  The
products of matrices are torch's in all contenders, unless `--library off`.  Needs a CUDA device and torch.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import polyfuse as pf

BATCH, SEQUENCE, WIDTH, HEADS = 8, 1024, 768, 12
SHAPES = {
    "gain_1": (WIDTH,),
    "bias_1": (WIDTH,),
    "w_qkv": (WIDTH, 3 * WIDTH),
    "b_qkv": (3 * WIDTH,),
    "w_out": (WIDTH, WIDTH),
    "b_out": (WIDTH,),
    "gain_2": (WIDTH,),
    "bias_2": (WIDTH,),
    "w_up": (WIDTH, 4 * WIDTH),
    "b_up": (4 * WIDTH,),
    "w_down": (4 * WIDTH, WIDTH),
    "b_down": (WIDTH,),
}


def layernorm(xp: Any, x: Any, gain: Any, bias: Any) -> Any:
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + 1e-5) * gain + bias


def gelu(xp: Any, x: Any) -> Any:
    return 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def layer(xp: Any, x: Any, mask: Any, p: dict[str, Any]) -> Any:
    """x: (batch, sequence, width); mask: (sequence, sequence), 0 or a large negative number; the same shape as x."""
    batch, sequence, width = x.shape
    head = width // HEADS
    h = layernorm(xp, x, p["gain_1"], p["bias_1"]).reshape(batch * sequence, width)
    qkv = (h @ p["w_qkv"] + p["b_qkv"]).reshape(batch, sequence, 3, HEADS, head)
    q, k, v = (qkv[:, :, n].swapaxes(1, 2) for n in range(3))
    scores = q @ k.swapaxes(-1, -2) * head**-0.5 + mask
    e = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    attended = (e / xp.sum(e, axis=-1, keepdims=True)) @ v
    joined = attended.swapaxes(1, 2).reshape(batch * sequence, width)
    x = x + (joined @ p["w_out"] + p["b_out"]).reshape(batch, sequence, width)
    h = layernorm(xp, x, p["gain_2"], p["bias_2"]).reshape(batch * sequence, width)
    h = gelu(xp, h @ p["w_up"] + p["b_up"])
    return x + (h @ p["w_down"] + p["b_down"]).reshape(batch, sequence, width)


def draw(torch: Any, dtype: Any) -> tuple[Any, Any, dict[str, Any]]:
    """The input, the causal mask and the parameters."""
    x = torch.randn(BATCH, SEQUENCE, WIDTH, device="cuda").to(dtype)
    mask = torch.full((SEQUENCE, SEQUENCE), -1e4, device="cuda").triu(1).to(dtype)
    made = {n: torch.randn(s, device="cuda") * (WIDTH**-0.5 if len(s) == 2 else 0.1) for n, s in SHAPES.items()}
    return x, mask, {n: (t + 1 if n.startswith("gain") else t).to(dtype) for n, t in made.items()}


def contenders(torch: Any, library: bool) -> dict[str, Callable[..., Any]]:
    from benchmarks.peers import TorchNamespace

    words = TorchNamespace(torch)

    def ours(x: Any, mask: Any, p: dict[str, Any]) -> Any:
        return layer(np, x, mask, p)

    def theirs(x: Any, mask: Any, p: dict[str, Any]) -> Any:
        return layer(words, x, mask, p)

    rungs = {"none": False, "pointwise": "pointwise", "all": True}
    found = {f"polyfuse {n}": pf.jit(ours, fuse=fuse, library=library) for n, fuse in rungs.items()}
    return {**found, "torch": theirs, "torch.compile": torch.compile(theirs, dynamic=False)}


def measured(torch: Any, name: str, call: Callable[..., Any], given: tuple[Any, ...], exact: Any) -> dict[str, Any]:
    from benchmarks.gpu import microseconds

    result = call(*given)
    error = float((result.double() - exact).abs().max() / exact.abs().max())
    del result
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call(*given)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    time, spread = microseconds([lambda: call(*given)], 21)
    row = {"name": name, "microseconds": time, "spread": spread, "peak_bytes": peak, "error": error}
    if isinstance(call, type(pf.jit(layer))):
        plan = call.plan(*given)
        row |= {"kernels": len(plan.kernels), "library_calls": len(plan.library_calls)}
    return row


def run(dtype: str, library: bool) -> list[dict[str, Any]]:
    import torch

    given = draw(torch, {"bf16": torch.bfloat16, "f32": torch.float32}[dtype])
    from benchmarks.peers import TorchNamespace

    x, mask, p = given
    exact = layer(TorchNamespace(torch), x.double(), mask.double(), {n: t.double() for n, t in p.items()})
    rows = []
    for name, call in contenders(torch, library).items():
        rows.append(measured(torch, name, call, given, exact))
        print(rows[-1], flush=True)
        assert rows[-1]["error"] < {"bf16": 3e-2, "f32": 1e-4}[dtype], f"{name}: error {rows[-1]['error']:.1e}"
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transformer", description=__doc__)
    parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--library", choices=("on", "off"), default="on")
    parser.add_argument("--save", help="results file to write")
    arguments = parser.parse_args()
    rows = run(arguments.dtype, arguments.library == "on")
    if arguments.save:
        from benchmarks.gpu import device_name, versions

        record = {
            "machine": device_name(),
            "versions": versions(),
            "date": datetime.date.today().isoformat(),
            "command": "python -m benchmarks.transformer " + " ".join(sys.argv[1:]),
            "layer": {"batch": BATCH, "sequence": SEQUENCE, "width": WIDTH, "heads": HEADS, "dtype": arguments.dtype},
            "rungs": rows,
        }
        Path(arguments.save).write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
