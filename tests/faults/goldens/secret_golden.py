"""A golden that fails, so that its traceback, its diagnosis and its log are written."""


def secret_golden(x):
    raise ValueError("broken")
