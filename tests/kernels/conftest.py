"""JAX on the CPU for every test of the kernels, before any of them imports it."""
from cuzk_cli.kernels import runtime

runtime.setup("cpu")
