"""The devices that curve kernels run on, and how host arrays get there.

Every kernel here runs on all local devices of one platform, each with its own share along the leading axis ("shards");
point tables are the same on all of them. Host memory at a multiple of 64 bytes is used in place by the CPU devices.
"""
from __future__ import annotations

import functools

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .runtime import compiler_options

AXIS = "shard"
SHARDED, EVERYWHERE = PartitionSpec(AXIS), PartitionSpec()


_turned_to: str | None = None       # None: JAX's default platform


def turn_to(platform: str) -> None:
    """Whatever begins from now on runs on the devices of another platform, "cpu" for one; what runs stays where it is."""
    global _turned_to
    _turned_to = platform


def local() -> tuple:
    """The local devices that kernels run on, a power of two of them: buckets and lanes are shared evenly."""
    return _local(_turned_to)


@functools.cache
def _local(platform: str | None) -> tuple:
    devices = jax.local_devices(backend=platform)
    return tuple(devices[:1 << (len(devices).bit_length() - 1)])


@functools.cache
def _mesh(devices: tuple) -> Mesh:
    return Mesh(np.array(devices), (AXIS,))


def mesh() -> Mesh:
    """The devices in one row."""
    return _mesh(local())


def shards() -> int:
    return mesh().size


def platform() -> str:
    return mesh().devices.flat[0].platform


def aligned(shape, dtype) -> np.ndarray:
    """Uninitialised host memory at a multiple of 64 bytes."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:start + size].view(dtype).reshape(shape)


def put_everywhere(array):
    """The same array on every device; on CPU without a copy. The host array must not change afterwards."""
    return jax.device_put(array, NamedSharding(mesh(), EVERYWHERE))


def put_sharded(array):
    """Equal parts of the leading axis, one a device."""
    return jax.device_put(array, NamedSharding(mesh(), SHARDED))


def compile_sharded(function, in_specs, out_specs, donate=()):
    """Jit `function` over the shards."""
    options = compiler_options() if platform() == "cpu" else {}
    mapped = jax.shard_map(function, mesh=mesh(), in_specs=in_specs, out_specs=out_specs, check_vma=False)
    return jax.jit(mapped, compiler_options=options, donate_argnums=donate)
