"""Field, curve, transform and multi-exponentiation kernels in JAX. Nothing here knows about Filecoin."""
