"""What can go wrong, and the exit code of each: the one table of the project."""
from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum


class Exit(IntEnum):
    """Process exit codes; the same numbers stand in results and in `--help`."""

    OK = 0              # verified proof written
    INTERNAL = 1        # a fault of ours: one line, trace in the log file
    USAGE = 2
    INPUT = 10          # input missing, damaged or mismatched
    PARAMETERS = 11
    DEVICE = 12
    RESOURCES = 13      # memory, device memory or scratch too small
    VERIFICATION = 14   # proof does not verify
    BUSY = 15
    DEADLINE = 17
    OUTPUT = 18         # output not written
    SIGINT = 130
    CLOSED_PIPE = 141
    SIGTERM = 143


MEANING = {
    Exit.OK: "verified proof written",
    Exit.INTERNAL: "internal error (one line, trace in the log file)",
    Exit.USAGE: "usage",
    Exit.INPUT: "input missing, damaged or mismatched",
    Exit.PARAMETERS: "parameters",
    Exit.DEVICE: "device",
    Exit.RESOURCES: "resources too small, with need and have",
    Exit.VERIFICATION: "proof does not verify",
    Exit.BUSY: "busy",
    Exit.DEADLINE: "deadline",
    Exit.OUTPUT: "output not written",
    Exit.SIGINT: "interrupted",
    Exit.CLOSED_PIPE: "closed pipe",
    Exit.SIGTERM: "terminated",
}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: `operation` on `path` gave `actual` where `expected` was due."""

    exit: Exit
    operation: str                  # what was being done: "read", "check comm_r_old", "parse --comm-r-new"
    path: str | None = None         # the file, or the option, that is at fault
    expected: str | None = None
    actual: str | None = None
    hint: str | None = None

    def line(self) -> str:
        """The one line that a person reads."""
        text = f"{self.path}: {self.operation}" if self.path else self.operation
        if self.expected is not None:
            text += f": expected {self.expected}"
            if self.actual is not None:
                text += f", actual {self.actual}"
        elif self.actual is not None:
            text += f": {self.actual}"
        if self.hint:
            text += f" ({self.hint})"
        return " ".join(text.split())

    def as_dict(self) -> dict:
        """The same as JSON: keys exit, operation, path, expected, actual, hint, message."""
        return {**asdict(self), "exit": int(self.exit), "message": self.line()}


class CuzkError(Exception):
    """Carries every problem found; `exit` is the lowest of their codes."""

    def __init__(self, *problems: Problem):
        assert problems
        self.problems = list(problems)
        super().__init__("; ".join(p.line() for p in problems))

    @property
    def exit(self) -> Exit:
        return min(p.exit for p in self.problems)

    def __reduce__(self):
        return (type(self), tuple(self.problems))


def fail(exit: Exit, operation: str, path=None, expected=None, actual=None, hint=None) -> CuzkError:
    """A CuzkError of one problem, to be raised by the caller."""
    text = lambda v: None if v is None else str(v)
    return CuzkError(Problem(exit, operation, text(path), text(expected), text(actual), text(hint)))
