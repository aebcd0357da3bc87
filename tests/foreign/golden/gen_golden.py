"""Named like a golden, and holds none."""


def generate(x):
    return x
