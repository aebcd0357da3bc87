"""`goldenprof <verb>`: everything that is not a target of the workflow.

Each verb is a module with `add_parser(subparsers, summary)` and `main(options) -> int`, imported when it is asked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn

from scripts.errors import CaseFailure, GoldenprofError

USAGE_ERROR = 1  # argparse's own 2 means here that a golden failed


@dataclass(frozen=True)
class Verb:
    """A verb, the module that does it, and its line in `goldenprof --help`."""

    name: str
    module: str
    summary: str


VERBS = (
    Verb("list", "scripts.list_cases", "list the cases with their keys and what became of them"),
    Verb("doctor", "scripts.doctor", "check this machine, down to a profiled operator that must give kernels"),
    Verb("import", "scripts.import_capture", "make a report of a capture that was profiled elsewhere"),
    Verb("discover", "scripts.discover", "write the cases.yaml entries for the operators in a folder"),
    Verb("compare", "scripts.compare", "compare a golden with candidates, or two results of a case"),
    Verb("aa", "scripts.aa", "run the same case twice many times and count false differences"),
    Verb("clean", "scripts.clean", "list the folders under prof/ that no case uses any more, or remove them"),
    Verb("nightly", "scripts.nightly", "measure every case afresh, record it and compare it with its history"),
    Verb("history", "scripts.history", "ask the history of all nights a question in SQL"),
)


class Parser(argparse.ArgumentParser):
    """Ends with 1 on a wrong command line."""

    def error(self, message: str) -> NoReturn:
        """Show what is wrong and where to read what is right."""
        self.exit(USAGE_ERROR, f"{self.prog}: {message}. See `{self.prog} --help`.\n")


class _ShowVersion(argparse.Action):
    """Reads it when it is asked for: the metadata of packages costs what a verb does not need."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it and end."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("goldenprof")
        except PackageNotFoundError:
            found = "not installed as a package, version unknown"
        print(f"goldenprof {found}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Do one verb; returns the exit code.

    0, 1 for a mistake of the user or the machine, 2 and 3 as in Status, 130 after Ctrl-C; `nightly` has its own.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser(arguments).parse_args(arguments)
    try:
        return options.main(options)
    except CaseFailure as failure:
        print(f"{failure.status}: {failure.message}\n{failure.advice}".rstrip(), file=sys.stderr)
        return failure.status.exit_code
    except GoldenprofError as error:
        print(error, file=sys.stderr)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"{error.filename or 'A file'} cannot be used: {error.strerror or error}.", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def _parser(arguments: list[str]) -> Parser:
    parser = Parser(prog="goldenprof", description="Profiles PyTorch goldens; `snakemake` makes the reports.")
    parser.add_argument("--version", action=_ShowVersion, help="print the version of goldenprof and end")
    subparsers = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    for verb in VERBS:
        if verb.name == wanted:
            module = import_module(verb.module)
            module.add_parser(subparsers, verb.summary)
            subparsers.choices[verb.name].set_defaults(main=module.main)
        else:
            subparsers.add_parser(verb.name, help=verb.summary)
    return parser


if __name__ == "__main__":
    sys.exit(main())
