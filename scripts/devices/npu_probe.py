"""Ask the Ascend runtime how many devices it has and which chip: one JSON line. Standard library only."""

import ctypes
import json


def probe() -> dict:
    """Count, SoC name and whether a stand-in answers, through libascendcl's C interface."""
    try:
        acl = ctypes.CDLL("libascendcl.so")
    except OSError as error:
        return {"error": str(error)}
    status = acl.aclInit(None)
    if status != 0:
        return {"error": f"aclInit returned {status}"}
    count = ctypes.c_uint32(0)
    status = acl.aclrtGetDeviceCount(ctypes.byref(count))
    if status != 0:
        where = "see `npu-smi info` and ASCEND_RT_VISIBLE_DEVICES"
        return {"error": f"aclrtGetDeviceCount returned {status}, no device is visible ({where})"}
    acl.aclrtGetSocName.restype = ctypes.c_char_p
    soc = (acl.aclrtGetSocName() or b"unknown").decode(errors="replace")
    return {"devices": count.value, "soc": soc, "stand_in": hasattr(acl, "goldenprof_stand_in")}


if __name__ == "__main__":
    print(json.dumps(probe()))
