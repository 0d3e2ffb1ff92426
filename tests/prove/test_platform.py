"""A machine without a GPU that is told to use one: an error, or the CPU where the user said so; never that silently."""
import os
import subprocess
import sys

import pytest

START = """
import sys
from cuzk_cli.errors import CuzkError
from cuzk_cli.prove.platform import start_device
try:
    start_device(sys.argv[1], print if sys.argv[2:] else None)
except CuzkError as error:
    sys.exit(f"{error.exit:d} {error}")
import jax
print(jax.devices()[0].platform, jax.config.jax_enable_x64)
"""


def started(*arguments, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "CUDA_"))}
    return subprocess.run([sys.executable, "-c", START, *arguments], env={**kept, "CUDA_VISIBLE_DEVICES": "", **variables},
                          capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("arguments, variables, says", [
    (["cuda"], {}, "cuda"), (["cuda:0"], {}, "no GPU number 0"), (["cuda"], {"JAX_PLATFORMS": "cpu"}, "cuda")])
def test_a_gpu_that_is_not_there_is_an_error(arguments, variables, says):
    done = started(*arguments, **variables)
    assert done.returncode == 1 and done.stderr.startswith("12 start JAX") and says in done.stderr, done.stderr


def test_the_cpu_instead_where_the_user_wants_it():
    done = started("cuda", "else the cpu")
    warning, platform = done.stdout.splitlines()
    assert warning.startswith("start JAX") and warning.endswith("proving goes on, slower, on the CPU")
    assert platform == "cpu True"
