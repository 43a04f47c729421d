"""The command line: ``paroli learn``, ``paroli predict``, ``paroli reproduce NAME``.

An experiment is a folder of ``experiments/`` with a ``run.py`` that has a function ``main(argv)``;
its name is the folder's with hyphens, its summary the first line of the file's docstring.  Nothing
is registered anywhere: a new folder is a new name.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import paroli

PACKAGE = Path(paroli.__file__).parent
EXTRA_OF = {
    "matplotlib": "experiments",
    "pooch": "experiments",
    "rich": "experiments",
    "torch": "torch",
    "jax": "jax",
    "sklearn": "sklearn",
}
"""Which of the package's extras brings a module that an experiment may import."""

STREAM_COMMANDS = {
    "learn": "learn a linear model from streams of rows",
    "predict": "predict with a model that was learned",
}
"""Their options are in `paroli.streams.commands`, which is imported when one of them is called."""


class FailureError(Exception):
    """What the user is told in one line, with the exit code 1."""


class Home(NamedTuple):
    """Where the experiments are: a folder, and how Python names it."""

    folder: Path
    package: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    options = _parser(argv[0] if argv else None).parse_args(argv)
    try:
        return int(options.run(options))
    except FailureError as failure:
        print(f"paroli: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("paroli: interrupted", file=sys.stderr)
        return 130  # what shells report for it
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # again what shells report


def _parser(command: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="paroli",
        description="Learning without learning rates: streams, and the paper's experiments.",
    )
    parser.add_argument("--version", action="version", version=f"paroli {paroli.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, summary_of in STREAM_COMMANDS.items():
        stream_command = commands.add_parser(name, help=summary_of)
        if name == command:
            module = importlib.import_module("paroli.streams.commands")
            getattr(module, f"add_{name}_options")(stream_command)
    reproduce = commands.add_parser(
        "reproduce",
        help="run an experiment, draw its figures",
        description="Run an experiment, draw its figures, and say where they are.",
        usage="paroli reproduce [-h] [--list] NAME [the experiment's own arguments ...]",
        epilog="'paroli reproduce NAME --help' lists the experiment's own arguments.",
    )
    reproduce.add_argument("--list", action="store_true", help="list the experiments")
    reproduce.add_argument("name", nargs="?", metavar="NAME", help="which experiment")
    reproduce.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    reproduce.set_defaults(run=reproduce_command, usage_error=reproduce.error)
    return parser


def reproduce_command(options: argparse.Namespace) -> int:
    """Run ``paroli reproduce``; returns the exit code."""
    home = find_home()
    names = find_names(home.folder)
    if options.list:
        width = max(map(len, names), default=0)
        for name in names:
            print(f"{name:{width}}  {summary(home.folder / _folder_of(name) / 'run.py')}")
        return 0
    if options.name is None:
        options.usage_error(f"which experiment?  known: {', '.join(names)}")
    if options.name not in names:
        options.usage_error(f"no experiment {options.name!r}; known: {', '.join(names)}")
    return run(home, options.name, options.arguments)


def find_home() -> Home:
    """The folder of the experiments: inside the package (a wheel) or at the checkout's root."""
    in_wheel, in_checkout = PACKAGE / "experiments", PACKAGE.parents[1] / "experiments"
    if in_wheel.is_dir():
        return Home(in_wheel, "paroli.experiments")
    if in_checkout.is_dir():
        return Home(in_checkout, "experiments")
    raise FailureError(f"no experiments here: neither {in_wheel} nor {in_checkout} exists")


def find_names(folder: Path) -> list[str]:
    """The names of the experiments in a folder."""
    return sorted(file.parent.name.replace("_", "-") for file in folder.glob("*/run.py"))


def _folder_of(name: str) -> str:
    return name.replace("-", "_")  # as Python can import it


def summary(run_file: Path) -> str:
    """The first line of a file's docstring, read without importing what the file imports."""
    docstring = ast.get_docstring(ast.parse(run_file.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def run(home: Home, name: str, argv: Sequence[str]) -> int:
    """Import one experiment and hand it its arguments."""
    root = str(home.folder.parent)
    if home.package == "experiments" and root not in sys.path:
        sys.path.insert(0, root)  # worker processes inherit it
    try:
        module = importlib.import_module(f"{home.package}.{_folder_of(name)}.run")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA_OF:
            raise
        extra = EXTRA_OF[missing]
        raise FailureError(
            f'the experiment {name!r} needs {missing}: pip install "paroli[{extra}]"'
        ) from error
    return int(module.main(argv))


if __name__ == "__main__":
    sys.exit(main())
