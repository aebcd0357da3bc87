"""Golden operators: plain PyTorch references, one file per operator, in one folder per family."""
