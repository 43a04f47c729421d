"""The core's functions as machine code: traced, written as C, compiled by the system's compiler."""

from paroli.native.build import NoCompilerError, load

__all__ = ["NoCompilerError", "load"]
