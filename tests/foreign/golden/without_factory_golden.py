"""No factory: somebody must say what x and y are."""


def without_factory_golden(x, y, alpha=1.0):
    return x * y * alpha
