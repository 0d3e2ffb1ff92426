import pytest

from .common import serving, tracker


@pytest.fixture
def folder(tmp_path):
    """Of status files: this process proves."""
    tracker(tmp_path / "status")
    return tmp_path / "status"


@pytest.fixture
def server(folder):
    found = serving(folder)
    yield found
    found.close()
