"""`python -m cuzk_cli` is `cuzk`."""
from .cli.main import run

if __name__ == "__main__":
    run()
