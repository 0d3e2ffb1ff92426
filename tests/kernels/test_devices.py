"""GPUs chosen by number, and kernels that turn to another platform."""
import os

import pytest

from cuzk_cli.kernels import runtime

runtime.setup("cpu")

from cuzk_cli.kernels import devices  # noqa: E402  (imports JAX, which is set up now)


@pytest.mark.parametrize("given, asked, left", [(None, "0", "0"), (None, "2,0", "2,0"), ("", "0", None), ("3,5", "1", "5"),
                                                ("GPU-a, GPU-b", "1,0", "GPU-b,GPU-a"), ("3", "1", None), ("3", "", "3")])
def test_gpus_are_counted_among_the_visible_ones(monkeypatch, given, asked, left):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    if left is None:
        with pytest.raises(ValueError, match="no GPU number"):
            runtime._select(asked)
    else:
        runtime._select(asked)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == left


def test_kernels_turn_to_another_platform(monkeypatch):
    before = devices.mesh()
    monkeypatch.setattr(devices, "_turned_to", None)
    devices.turn_to("cpu")
    assert devices.platform() == "cpu" and devices.mesh() == before and devices.shards() == len(devices.local())
    devices.turn_to("nothing")
    with pytest.raises(RuntimeError):
        devices.mesh()
