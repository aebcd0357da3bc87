"""Run operators on the stand-in device and on the CPU from the same inputs; print each with "equal" or what differs.

Needs the environment with `cpu_values`. Printed by name, one a line, so that a test can say which one is wrong.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torch_npu

DEVICE = "npu:0"


def inputs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)

    def rand(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator)

    return {
        "x": rand(4, 8, 16),
        "h": rand(4, 8, 16).half(),
        "m": rand(16, 32),
        "i": torch.randint(0, 8, (4, 8, 16), generator=generator),
        "j": torch.randint(0, 4, (6,), generator=generator),
        "mask": rand(4, 8, 16) > 0.5,
    }


OPERATORS: dict[str, Callable[..., Any]] = {
    "add": lambda x, **_: x + x,
    "sub_scalar": lambda x, **_: 1 - x,
    "mul_in_place": lambda x, **_: x.clone().mul_(2.5),
    "add_in_place_on_view": lambda x, **_: (y := x.clone(), y[1:, ::2].add_(1.0), y)[2],
    "div": lambda x, m, **_: x / m[:, 0],
    "exp": lambda x, **_: x.exp(),
    "rsqrt": lambda x, **_: x.rsqrt(),
    "sqrt": lambda x, **_: x.sqrt(),
    "pow": lambda x, **_: x.pow(3),
    "mean": lambda x, **_: x.mean(-1, keepdim=True),
    "sum": lambda x, **_: x.sum((0, 2)),
    "amax": lambda x, **_: x.amax(-1),
    "max": lambda x, **_: x.max(),
    "max_dim": lambda x, **_: x.max(-1),
    "argmax": lambda x, **_: x.argmax(-1),
    "softmax": lambda x, **_: x.softmax(-1),
    "softmax_to_float": lambda h, **_: h.softmax(-1, dtype=torch.float32),
    "matmul": lambda x, m, **_: x @ m,
    "matmul_transposed": lambda h, **_: h @ h.transpose(-1, -2),
    "bmm_out": lambda x, **_: torch.bmm(x, x.transpose(1, 2), out=torch.empty(4, 8, 8, device=x.device)),
    "einsum": lambda x, **_: torch.einsum("bsd,btd->bst", x, x),
    "linear": lambda x, m, **_: F.linear(x, m.T, m[0]),
    "cat": lambda x, **_: torch.cat([x[..., 8:], x[..., :8]], -1),
    "stack": lambda x, **_: torch.stack([x, -x]),
    "index": lambda x, j, **_: x[j],
    "index_put": lambda x, j, **_: x.clone().index_put_((j,), torch.zeros(1, device=x.device)),
    "boolean_index": lambda x, mask, **_: x[mask],
    "nonzero": lambda mask, **_: mask.nonzero(),
    "gather": lambda x, i, **_: x.gather(1, i),
    "scatter": lambda x, i, **_: x.scatter(1, i, 1.0),
    "scatter_add": lambda x, i, **_: torch.zeros_like(x).scatter_add(1, i, torch.ones_like(x)),
    "topk": lambda x, **_: x.topk(3, -1),
    "sort": lambda x, **_: x.sort(-1),
    "where": lambda x, mask, **_: torch.where(mask, x, 0.0),
    "masked_fill": lambda x, mask, **_: x.masked_fill(mask, -1e9),
    "round": lambda x, **_: (x * 10).round(),
    "clamp": lambda x, **_: x.clamp(0.2, 0.6),
    "to_half": lambda x, **_: x.half(),
    "to_bfloat16": lambda x, **_: x.bfloat16(),
    "to_int8": lambda x, **_: (x * 100).to(torch.int8),
    "sigmoid": lambda x, **_: x.sigmoid(),
    "silu": lambda x, **_: F.silu(x),
    "gelu": lambda x, **_: F.gelu(x),
    "cos": lambda x, **_: x.cos(),
    "sin": lambda x, **_: x.sin(),
    "cumsum": lambda x, **_: x.cumsum(-1),
    "tril": lambda m, **_: m.tril(),
    "one_hot": lambda j, **_: F.one_hot(j, 5),
    "full": lambda x, **_: torch.full((3, 4), 2.0, device=x.device),
    "arange": lambda x, **_: torch.arange(10, device=x.device),
    "zeros_ones": lambda x, **_: torch.zeros(3, device=x.device) + torch.ones(3, device=x.device),
    "reshape_of_transposed": lambda x, **_: x.transpose(0, 2).reshape(16, -1),
    "expand": lambda x, **_: x[:, :1].expand(4, 8, 16) * 1.0,
    "rms_norm": lambda x, **_: F.rms_norm(x, (16,)),
    "layer_norm": lambda x, **_: F.layer_norm(x, (16,)),
    "conv1d": lambda x, **_: F.conv1d(x, x[:, :, :3][:2]),
    "item": lambda x, **_: x.sum().item(),
    "branch_on_value": lambda x, mask, **_: x if bool(mask.any()) else -x,
    "copy_to_cpu_as_half": lambda x, **_: x.to("cpu", torch.float16),
}


def difference(got: Any, want: Any) -> str:
    """ "equal", or the first thing that is not: shape, dtype or the largest absolute difference."""
    if isinstance(want, (tuple, list)):
        return next((d for d in map(difference, got, want) if d != "equal"), "equal")
    if not isinstance(want, torch.Tensor):
        return "equal" if got == want else f"{got} != {want}"
    got = got.cpu()
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return f"{got.dtype} {tuple(got.shape)} instead of {want.dtype} {tuple(want.shape)}"
    return "equal" if torch.equal(got, want) else f"differs by {(got.double() - want.double()).abs().max().item():g}"


def main() -> None:
    torch_npu.npu.set_device(DEVICE)
    for name, operator in OPERATORS.items():
        on_cpu = inputs()
        on_npu = {key: tensor.to(DEVICE) for key, tensor in inputs().items()}
        print(f"{name}: {difference(operator(**on_npu), operator(**on_cpu))}")


if __name__ == "__main__":
    main()
