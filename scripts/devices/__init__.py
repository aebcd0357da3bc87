"""Everything that knows one kind of device from another.

identity.py            which devices this machine has, without torch (used when the DAG is built)
pool.py                those that profile jobs are handed, from `devices`
visible.py usage.py    hiding the others from a process; how much others use one
base.py                the protocol that measuring is written against
cpu.py cuda.py npu.py  its three implementations (they import torch)
opening.py             from a kind of device to its implementation
torch_events.py        reading the events of torch.profiler, for the CPU and CUDA
kernel_event.py        what is taken from them
capture_format.py      writing that as the common capture format, timeline.py its trace
npu_analysis.py        from what torch_npu's profiler collected to the same format
npu_probe.py           asking the Ascend runtime, in a process of its own
ascend.py              what is known of Ascend machines without torch
clocks.py              at what speed a device runs, for a night's record
vendor_tools.py        what nvidia-smi and npu-smi print
"""
