"""Runs probes on a GPU through the CUDA driver, which compiles their PTX; needs the package cuda-bindings."""

import ctypes
from typing import Any

import numpy as np
from cuda.bindings import driver

from tests.emulator.silicon.probe import Buffer, Early, Im2col, Probe, TensorMap

SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
INTERLEAVES = {0: "NONE", 16: "16B", 32: "32B"}
PROMOTIONS = ("NONE", "L2_64B", "L2_128B", "L2_256B")


class DriverError(Exception):
    pass


def call(function: Any, *arguments: Any) -> Any:
    """The results of a driver function, without the status."""
    status, *results = function(*arguments)
    if int(status) != 0:
        raise DriverError(f"{function.__name__}: {status.name}")
    return results[0] if len(results) == 1 else results


class Device:
    """The first GPU, with its primary context current."""

    def __init__(self) -> None:
        call(driver.cuInit, 0)
        self.handle = call(driver.cuDeviceGet, 0)
        call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, self.handle))

    def description(self) -> dict[str, Any]:
        attribute = driver.CUdevice_attribute
        major = call(driver.cuDeviceGetAttribute, attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self.handle)
        minor = call(driver.cuDeviceGetAttribute, attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self.handle)
        name = call(driver.cuDeviceGetName, 96, self.handle).split(b"\0")[0].decode()
        return {"device": name, "capability": f"{major}.{minor}", "cuda_of_driver": call(driver.cuDriverGetVersion)}

    def run(self, probe: Probe) -> dict[str, np.ndarray]:
        """The kept buffers after one launch."""
        module = call(driver.cuModuleLoadData, probe.ptx.encode() + b"\0")
        function = call(driver.cuModuleGetFunction, module, b"probe")
        memory = {buffer.name: self.upload(buffer.initial) for buffer in probe.buffers}
        values = []
        for parameter in probe.parameters:
            if isinstance(parameter, Buffer):
                values.append(ctypes.create_string_buffer(int(memory[parameter.name]).to_bytes(8, "little"), 8))
            else:
                values.append(ctypes.create_string_buffer(encode(parameter, int(memory[parameter.buffer])), 128))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        call(driver.cuLaunchKernelEx, launch(probe), function, ctypes.addressof(pointers), 0)
        call(driver.cuCtxSynchronize)
        results = {}
        for buffer in probe.buffers:
            if buffer.kept:
                results[buffer.name] = np.empty_like(buffer.initial)
                call(driver.cuMemcpyDtoH, results[buffer.name].ctypes.data, memory[buffer.name], buffer.initial.nbytes)
        for pointer in memory.values():
            call(driver.cuMemFree, pointer)
        call(driver.cuModuleUnload, module)
        return results

    def upload(self, array: np.ndarray) -> Any:
        contiguous = np.ascontiguousarray(array)
        pointer = call(driver.cuMemAlloc, contiguous.nbytes)
        call(driver.cuMemcpyHtoD, pointer, contiguous.ctypes.data, contiguous.nbytes)
        return pointer


def launch(probe: Probe) -> Any:
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = probe.grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = probe.block, 1, 1
    config.sharedMemBytes = probe.dynamic_shared
    config.hStream = driver.CUstream(0)
    config.numAttrs = 0
    if probe.cluster > 1:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x = probe.cluster
        attribute.value.clusterDim.y = 1
        attribute.value.clusterDim.z = 1
        config.attrs = [attribute]
        config.numAttrs = 1
    return config


def encode(tile: TensorMap, address: int) -> bytes:
    """The 128 bytes that cuTensorMapEncodeTiled, or cuTensorMapEncodeIm2col, writes."""
    rank = len(tile.sizes)
    encode, box = driver.cuTensorMapEncodeTiled, [[driver.cuuint32_t(b) for b in tile.box]]
    if isinstance(tile, Im2col):
        encode = driver.cuTensorMapEncodeIm2col
        box = [list(tile.lower), list(tile.upper), *(driver.cuuint32_t(b) for b in tile.box)]
    encoded = call(
        encode,
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{tile.kind}"),
        rank,
        int(address) - (tile.before if isinstance(tile, Early) else 0),
        [driver.cuuint64_t(s) for s in tile.sizes],
        [driver.cuuint64_t(s) for s in tile.strides or (0,)],
        *box,
        [driver.cuuint32_t(s) for s in tile.steps or (1,) * rank],
        getattr(driver.CUtensorMapInterleave, f"CU_TENSOR_MAP_INTERLEAVE_{INTERLEAVES[tile.interleave]}"),
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{SWIZZLES[tile.swizzle]}"),
        getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{PROMOTIONS[tile.promotion]}"),
        driver.CUtensorMapFloatOOBfill(int(tile.fill_nan)),
    )
    return np.array([int(word) for word in encoded.opaque], np.uint64).tobytes()
