"""cuzk: Filecoin sectors to Groth16 proofs, in JAX."""

__version__ = "0.1.0"
