"""Goldens that fail, one for each way to fail."""

import ctypes
import os
import sys
import time

import torch


def index_golden(x):
    return x[torch.tensor([x.shape[0] + 5])]


def shape_golden(x):
    return x @ torch.ones(x.shape[-1] + 1, 2)


def dtype_golden(x):
    return torch.mm(x, x.T.to(torch.float64))


def precondition_golden(x):
    if x.shape[0] != 7777:
        raise ValueError("x must have 7777 rows")
    return x


def other_golden(x):
    raise KeyError("no such entry")


def text_golden(x):
    return "not a tensor"


def hang_golden(x):
    while True:
        time.sleep(0.1)


def segfault_golden(x):
    ctypes.string_at(0)


def exit_golden(x):
    os._exit(0)


def system_exit_golden(x):
    sys.exit(0)


def view_golden(x):
    return x.transpose(0, 1)


def missing_argument_golden(x, scale_of_it):
    return x * scale_of_it
