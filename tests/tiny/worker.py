"""The synthesis worker that knows the tiny circuit."""
from cuzk_cli.prove import worker
from tests import tiny

if __name__ == "__main__":
    tiny.install()
    worker.main()
