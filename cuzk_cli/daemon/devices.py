"""What JAX says of the devices of this process."""
from __future__ import annotations

from .service import Device


def devices() -> dict[int, Device]:
    """By ordinal, as workers name them. Runs nothing on a device."""
    import jax

    return {ordinal: _device(each) for ordinal, each in enumerate(jax.local_devices())}


def _device(device) -> Device:
    memory = device.memory_stats() or {}        # the CPU has none
    total = memory.get("bytes_limit", 0)
    return Device(device.device_kind, total, max(total - memory.get("bytes_in_use", 0), 0))
