"""The steps of the workflow and the nouns they share, importable without Snakemake."""

import os

# torch loads every installed backend as it is imported, and torch_npu without CANN breaks `import torch` then, on the
# CPU too. Whoever needs the NPU loads it (scripts/devices/npu.py), and says what is wrong when that fails.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

# An operator's threads sleep while they wait for each other. They spin by default, and then any other work on the
# machine costs an operator whole time slices; `python -m benchmarks.thread_waiting` shows how much. Part of the
# environment's identity on the CPU: set the variable to have it otherwise.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# CUDA counts GPUs as nvidia-smi does, and not the fastest first: a number then means the GPU that is locked for it.
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
