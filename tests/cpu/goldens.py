"""Goldens that are easy to mistake for what a measurement adds: their kernels have the noise's or the restores' types.

`_make_inputs` gives each its own shapes. Small, so that a capture takes milliseconds.
"""

import torch

NOISE_ELEMENTS = 16384  # of the tests' noise buffer, 1/16 MiB of float32
_calls = 0


def softmax_by_amax_golden(x):
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


def max_of_all_golden(x):
    return x.max()


def max_of_the_noises_shape_golden(x):
    return x.max() + x.max()


def only_max_of_the_noises_shape_golden(x):
    return torch.max(x)


def max_with_indices_golden(x):
    values, indices = x.max(dim=1)
    return values, indices


def copies_golden(x):
    y = torch.empty_like(x)
    y.copy_(x)
    z = torch.empty_like(x)
    z.copy_(y)
    return z


def clones_golden(x):
    return x.clone().clone()


def casts_golden(x):
    return x.to(torch.bfloat16).to(torch.float32).double()


def randn_golden(x):
    return x + torch.randn(x.shape)


def contiguous_golden(x):
    return x.t().contiguous()


def matmul_golden(a, b):
    return torch.softmax(a @ b, dim=-1)


def adds_in_place_golden(x):
    x.add_(1)
    return x * 2


def writes_two_inputs_golden(m, v, g):
    m.mul_(0.9).add_(g)
    v.mul_(0.99).addcmul_(g, g)
    return m / (v + 1)


def overwrites_by_copy_golden(x, y):
    x.copy_(y)
    return x.max()


def fills_golden(x):
    x.fill_(3)
    return torch.zeros_like(x).fill_(1)


def list_golden(parts):
    return torch.cat(parts).amax()


def one_kernel_golden(x):
    return x.neg()


def view_only_golden(x):
    return x.t()[1:, ::2].unsqueeze(0)


def more_every_time_golden(x):
    global _calls
    _calls += 1
    for _ in range(_calls):
        x = x + 1
    return x


def max_every_other_time_golden(x):
    global _calls
    _calls += 1
    return x.amax() if _calls % 2 else x.neg()


def _make_inputs(device, case):
    def draw(*shape):
        return torch.randn(*shape, device=device)

    noise_like = {"max_of_the_noises_shape", "only_max_of_the_noises_shape"}
    if case in noise_like:
        return (draw(NOISE_ELEMENTS),), {}
    if case == "matmul":
        return (draw(37, 41), draw(41, 43)), {}
    if case == "writes_two_inputs":
        return (draw(61), draw(61).abs(), draw(61)), {}
    if case == "overwrites_by_copy":
        return (draw(67), draw(67)), {}
    if case == "list":
        return ([draw(3, 71), draw(5, 71)],), {}
    return (draw(33, 51),), {}
