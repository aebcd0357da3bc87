"""Needs a package that no machine has."""

import torch.nn as nn
from a_package_that_is_nowhere import rearrange


class Model(nn.Module):
    def forward(self, x):
        return rearrange(x)


def get_inputs():
    return []


def get_init_inputs():
    return []
