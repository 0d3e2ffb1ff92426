"""The device that JAX is asked for, and what it says when it has none."""
from __future__ import annotations

from typing import Callable

from ..errors import CuzkError, Exit, fail
from ..kernels import runtime


def start_device(device: str, cpu_instead: Callable[[str], None] | None = None) -> None:
    """Set JAX up and let it find its devices. cpu_instead: told why, where the CPU is to do what the device cannot.

    Raises CuzkError (DEVICE), also for an environment that JAX refuses.
    """
    try:
        _start(device)
    except CuzkError as error:
        if cpu_instead is None or device == "cpu":
            raise
        import jax

        jax.config.update("jax_platforms", "cpu")
        _start("cpu")
        cpu_instead(f"{error}; proving goes on, slower, on the CPU")


def _start(device: str) -> None:
    try:
        runtime.setup(device)
        import jax

        if device.startswith("cuda") and jax.devices()[0].platform == "cpu":      # JAX would go on there, silently
            jax.devices("cuda")         # says why
            raise ValueError(f"JAX_PLATFORMS={jax.config.jax_platforms} puts the CPU first")
        jax.devices()
    except (RuntimeError, ValueError, AssertionError) as error:     # JAX's own, by what is wrong
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise fail(Exit.DEVICE, "start JAX", None, f"a device for --device {device}", text,
                   "JAX_PLATFORMS, JAX_NUM_CPU_DEVICES and other variables of JAX are obeyed") from None
