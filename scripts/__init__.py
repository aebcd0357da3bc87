"""The steps of the workflow and the nouns they share, importable without Snakemake."""

import os

# torch loads every installed backend as it is imported, and torch_npu without CANN breaks `import torch` then, on the
# CPU too. Whoever needs the NPU loads it (scripts/devices/npu.py), and says what is wrong when that fails.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
