"""Inputs of 4 TiB, which must never be allocated."""

import torch
import torch.nn as nn

batch_size = 2**20
dim = 2**20


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return [dim]
