"""Everything that knows one kind of device from another.

identity.py   which devices this machine has, without torch (used when the DAG is built)
base.py       the protocol that measuring is written against, and the writer of the common capture format
cpu.py cuda.py npu.py   its three implementations (they import torch)
"""
