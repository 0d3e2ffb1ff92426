"""The device that JAX is asked for, and what it says when it has none."""
from __future__ import annotations

from ..errors import Exit, fail
from ..kernels import runtime


def start_device(device: str) -> None:
    """Set JAX up and let it find its devices. Raises CuzkError (DEVICE), also for an environment that JAX refuses."""
    try:
        runtime.setup(device)
        import jax

        jax.devices()
    except (RuntimeError, ValueError, AssertionError) as error:     # JAX's own, by what is wrong
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise fail(Exit.DEVICE, "start JAX", None, f"a device for --device {device}", text,
                   "JAX_PLATFORMS, JAX_NUM_CPU_DEVICES and other variables of JAX are obeyed") from None
