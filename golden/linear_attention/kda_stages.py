"""Inputs of the KDA stage operators: each stage gets what the stages before it return."""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.inputs import Draw
from golden.linear_attention.delta_rule import from_chunks, interactions, inverse, l2norm, to_chunks


class Size(NamedTuple):
    """Sizes of a case."""

    batch: int
    tokens: int
    heads: int
    dim: int
    chunk: int


SIZES = {"smoke": Size(2, 32, 2, 16, 16), "p0": Size(1, 256, 4, 128, 128)}


def first_inputs(size: Size, device: torch.device | str) -> dict[str, torch.Tensor]:
    """q, k of length 1, v, raw gates g, beta and h0 of a case."""
    draw = Draw(device)
    shape = (size.batch, size.tokens, size.heads)
    return {
        "q": l2norm(draw.normal(*shape, size.dim)).to(torch.bfloat16),
        "k": l2norm(draw.normal(*shape, size.dim)).to(torch.bfloat16),
        "v": draw.normal(*shape, size.dim),
        "g": draw.uniform(-0.1, 0.0, *shape, size.dim),
        "beta": draw.uniform(0.0, 1.0, *shape),
        "h0": draw.normal(size.batch, size.heads, size.dim, size.dim, dtype=torch.float32),
    }


def summed_gates(g: torch.Tensor, chunk: int) -> torch.Tensor:
    """Running sums of g [B, T, H, K] within each chunk."""
    return from_chunks(to_chunks(g, chunk).cumsum(-2))


def interactions_of(k: torch.Tensor, gates: torch.Tensor, beta: torch.Tensor, chunk: int) -> torch.Tensor:
    """L [B, T, H, chunk] from summed gates."""
    return from_chunks(interactions(*(to_chunks(x, chunk) for x in (k, gates, beta))))


def inverse_of(interaction: torch.Tensor) -> torch.Tensor:
    """(I + L)^-1 [B, T, H, chunk]."""
    return from_chunks(inverse(to_chunks(interaction, interaction.shape[-1])))
