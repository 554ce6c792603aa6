"""The driver's table against its header: layouts, numbers, names. Nothing here needs a GPU."""

import ctypes
import re
import subprocess
from pathlib import Path

import pytest
import triton

from migraphx.ir.operation import Unsupported
from migraphx.targets.cpu.toolchain import find_compiler
from migraphx.targets.gpu import driver
from migraphx.targets.gpu.driver import CUDA, LaunchAttribute, LaunchConfig, Library, NodeParameters

HEADER = Path(triton.__file__).parent / "backends/nvidia/include/cuda.h"

FIELDS = {
    ("CUlaunchConfig", LaunchConfig): {
        "grid": "gridDimX", "block": "blockDimX", "shared": "sharedMemBytes", "stream": "hStream",
        "attributes": "attrs", "attribute_count": "numAttrs",
    },
    ("CUlaunchAttribute", LaunchAttribute): {"id": "id", "value": "value"},
    ("CUDA_KERNEL_NODE_PARAMS_v2", NodeParameters): {
        "function": "func", "grid": "gridDimX", "block": "blockDimX", "shared": "sharedMemBytes",
        "arguments": "kernelParams", "extra": "extra", "kernel": "kern", "context": "ctx",
    },
}  # fmt: skip
NUMBERS = {
    "CUDA_SUCCESS": driver.SUCCESS,
    "CUDA_ERROR_OUT_OF_MEMORY": driver.OUT_OF_MEMORY,
    "CUDA_ERROR_NOT_READY": driver.NOT_READY,
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": driver.CAPTURE_FORBIDS,
    "CU_STREAM_CAPTURE_MODE_RELAXED": driver.RELAXED,
    "CU_STREAM_NON_BLOCKING": driver.NON_BLOCKING,
    "CU_EVENT_DISABLE_TIMING": driver.WITHOUT_TIMING,
    "(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)": driver.PINNED_FOR_ALL,
    "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD": driver.RELEASE_THRESHOLD,
    "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION": driver.CLUSTER,
    "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION": driver.OVERLAP,
    "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": driver.DYNAMIC_SHARED,
    "CU_POINTER_ATTRIBUTE_MEMORY_TYPE": driver.MEMORY_TYPE,
    "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL": driver.DEVICE_ORDINAL,
    "CU_MEMORYTYPE_HOST": driver.HOST_MEMORY,
    "CU_MEMORYTYPE_DEVICE": driver.DEVICE_MEMORY,
    "CU_DEVICE_ATTRIBUTE_CLOCK_RATE": driver.CLOCK,
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": driver.PROCESSORS,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": driver.MAJOR,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": driver.MINOR,
    "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": driver.MOST_SHARED,
}


def test_layouts_and_numbers_are_the_header_s(tmp_path: Path) -> None:
    lines = ["#include <cuda.h>", "#include <cstddef>"]
    for (name, structure), fields in FIELDS.items():
        lines.append(f"static_assert(sizeof({name}) == {ctypes.sizeof(structure)});")
        for ours, theirs in fields.items():
            lines.append(f"static_assert(offsetof({name}, {theirs}) == {getattr(structure, ours).offset});")
    lines += [f"static_assert({name} == {value});" for name, value in NUMBERS.items()]
    source = tmp_path / "layouts.cpp"
    source.write_text("\n".join(lines) + "\n")
    command = [*find_compiler().command, "-std=c++20", "-fsyntax-only", "-I", str(HEADER.parent), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


KINDS = {
    ctypes.c_int: r"int|CUdevice|CUresult|CU\w+_(?:attribute|enum|status)|CUstreamCaptureMode|CU\w*[aA]ttrib\w*",
    ctypes.c_uint: r"unsigned int",
    ctypes.c_uint64: r"size_t|CUdeviceptr|unsigned long long|cuuint64_t",  # which is c_size_t
    ctypes.c_char_p: r"(?:const )?char \*",
}
HANDLES = r"CU(context|stream|event|graph|graphExec|graphNode|library|kernel|function|memoryPool)\b"


@pytest.mark.parametrize("name", CUDA)
def test_a_function_is_declared_as_in_the_header(name: str) -> None:
    """As many arguments, numbers where it has numbers, pointers and handles where it has those."""
    symbol, types = CUDA[name]
    text = HEADER.read_text()
    plain = symbol.split("_v")[0].removesuffix("WithFlags")
    versioned = re.findall(rf"CUresult CUDAAPI {symbol}\(([^)]*)\)", text, re.S)
    declared = (versioned or re.findall(rf"CUresult CUDAAPI {plain}\(([^)]*)\)", text, re.S))[0]
    arguments = [] if declared.strip() in ("", "void") else [a.strip() for a in declared.split(",")]
    assert len(arguments) == len(types), declared
    for argument, kind in zip(arguments, types, strict=True):
        if kind in KINDS:
            assert re.match(KINDS[kind], argument) and ("*" not in argument or kind is ctypes.c_char_p), argument
        else:
            assert "*" in argument or re.match(HANDLES, argument), argument


def test_a_missing_library_and_a_function_are_named() -> None:
    with pytest.raises(Unsupported, match=r"needs libnothing\.so\.1, which comes with the driver of an ACME GPU"):
        driver.Driver(Library("libnothing.so.1", CUDA, "ACME"))
    with pytest.raises(Unsupported, match=r"libc\.so\.6 has no cuInit: its driver is too old"):
        driver.Driver(Library("libc.so.6", CUDA, "ACME"))
