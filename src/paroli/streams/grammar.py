"""The formats, line by line: what a line of text says, in plain Python.

`parse.c` reads the same grammar some hundred times faster, and hands each line that is not of the
common kind to the functions here: they alone say what is wrong with a line.

**svmlight**: ``label number:value number:value ... # comment``; ``qid:`` is passed over.

**Vowpal Wabbit**: ``label weight 'tag|namespace:scale name:value name ... |namespace ...``, all but
the bar optional.  A tag also is what touches the first bar.  No value: 1.  No name before the
colon: the features of that namespace are counted.

**CSV**: a header, then one row a line; cells may be quoted (``"a ""b"" c"``), but not broken across
lines, so that a stray quote costs one line and not the file.  A number is the value of the column's
feature; any other text is the feature ``column=text`` of value 1; empty cells, ``NA``, ``NaN``,
``null``, ``None`` and ``?`` are missing.

**JSON lines**: one object a line.  Numbers and texts are as in CSV, but a quoted text is never a
number; true is 1, false 0, null is missing; in an object in an object names are joined by dots;
each text of a list is a feature ``name=text``, its other elements are ``name.0``, ``name.1``, ...

In all of them: blank lines are no rows; a line ends with LF or CR LF; numbers are decimal, and NaN,
infinities and what float32 cannot hold are refused; features of value 0 are left out.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from paroli.streams.batch import LabelKind
from paroli.streams.hashing import number_of, pair

Format: TypeAlias = Literal["svmlight", "vw", "csv", "jsonl"]

MISSING = frozenset([b"", b"NA", b"N/A", b"n/a", b"NaN", b"nan", b"null", b"NULL", b"None", b"?"])
DELIMITERS = b",\t;|"
DEEPEST = 32
"""Objects and lists nested deeper than this are refused."""

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_INDEX = re.compile(rb"[0-9]+")
_SPACES = b" \t"
_NO_DELIMITERS = frozenset(string.ascii_letters + string.digits + "\"'\n\r+-._\0")


class MalformedError(ValueError):
    """A line that is not of its format; nothing of it is learned."""


class LayoutError(ValueError):
    """A header or an option that does not fit the file."""


@dataclass(frozen=True)
class Layout:
    """How text becomes rows; the same for all files of a run, and kept with the model.

    Args:
        bits: features are numbered below 2 to this power, 1 to 31.
        labels: what labels are; see `LabelKind`.
        classes: the labels as the file has them, negative one first; needed for ``classes``.
        interactions: products of features to add: ``ab`` for the namespaces (columns) whose names
            begin with a and with b, ``first,second`` for names in full, ``::`` for all with all.
        label, weight, tag: names of those columns, in CSV and JSON lines.
        ignored: columns (JSON: outermost keys) to pass over.
        categorical: columns whose numbers are names.
        delimiter: of CSV; empty: the one that is most frequent in the header.
        header: whether CSV has one; if not, columns are named 1, 2, 3, ...
    """

    bits: int = 20
    labels: LabelKind = "binary"
    classes: tuple[str, ...] = ()
    interactions: tuple[str, ...] = ()
    label: str = "label"
    weight: str | None = None
    tag: str | None = None
    ignored: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    delimiter: str = ""
    header: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 31:
            raise LayoutError(f"bits is {self.bits}: give 1 to 31")
        if self.labels not in get_args(LabelKind):
            raise LayoutError(f"labels is {self.labels!r}: give {', '.join(get_args(LabelKind))}")
        if len(set(self.classes)) != len(self.classes):
            raise LayoutError(f"a class is named twice: {', '.join(self.classes)}")
        if self.labels == "classes" and len(self.classes) < 3:
            raise LayoutError("give the names of three classes or more; for two, labels are binary")
        if self.labels == "binary" and len(self.classes) not in (0, 2):
            raise LayoutError(f"binary labels have two classes, not {len(self.classes)}")
        if self.labels not in ("binary", "classes") and self.classes:
            raise LayoutError(f"{self.labels} labels have no classes")
        if len(self.delimiter.encode()) > 1 or self.delimiter in _NO_DELIMITERS:
            raise LayoutError(
                f"the delimiter {self.delimiter!r} is not one character beside letters, digits, "
                "quotes, signs and points"
            )
        for text in self.interactions:
            Interaction.parse(text)

    @property
    def dimensions(self) -> int:
        """How many numbers a feature can have."""
        return 1 << self.bits


class Entry(NamedTuple):
    """One feature of a row."""

    group: tuple[int, int]
    """First byte and number of the namespace or column: what interactions ask for."""
    number: int
    value: np.float32
    name: bytes


@dataclass
class Row:
    """What a line says."""

    label: float = float("nan")
    weight: float = 1.0
    tag: bytes = b""
    entries: list[Entry] = field(default_factory=list)


class Interaction(NamedTuple):
    """A pair of tests on groups: by first byte, by number, or neither (every group passes)."""

    first: tuple[int | None, int | None]
    second: tuple[int | None, int | None]

    @classmethod
    def parse(cls, text: str) -> Interaction:
        """Read ``ab``, ``first,second`` or ``::``."""
        if "," in text:
            first, _, second = text.partition(",")
            if first and second and "," not in second:
                return cls(*((None, number_of(s.encode()) & 0xFFFFFFFF) for s in (first, second)))
        elif text == "::":
            return cls((None, None), (None, None))
        elif len(text.encode()) == 2:
            first_byte, second_byte = text.encode()
            return cls((first_byte, None), (second_byte, None))
        raise LayoutError(
            f"the interaction {text!r} is neither two letters, nor two names with a comma between, "
            "nor ::"
        )


def group_of(name: bytes) -> tuple[int, int]:
    """What interactions know of a namespace or column."""
    return (name[0] if name else 0, number_of(name) & 0xFFFFFFFF)


# Numbers and labels --------------------------------------------------------------------------


def is_number(text: bytes) -> bool:
    """Whether the text is a decimal number."""
    return _NUMBER.fullmatch(text) is not None


def number(text: bytes, what: str) -> float:
    """A finite decimal number, correctly rounded."""
    if not is_number(text):
        if _NOT_FINITE.fullmatch(text):
            raise MalformedError(
                f"{what} is {shown(text)}: only finite numbers can be learned from"
            )
        raise MalformedError(f"{what} is {shown(text)}, which is not a number")
    value = float(text)
    if abs(value) == float("inf"):
        raise MalformedError(f"{what} is {shown(text)}, which is too large")
    return value


def single(value: float, text: bytes, what: str) -> np.float32:
    """The number in float32."""
    with np.errstate(over="ignore"):
        rounded = np.float32(value)
    if not np.isfinite(rounded):
        raise MalformedError(f"{what} is {shown(text)}, which is too large for float32")
    return rounded


def weight_of(text: bytes) -> float:
    """An importance weight."""
    weight = number(text, "the weight")
    if weight < 0:
        raise MalformedError(f"the weight is {shown(text)}: give 0 or more")
    return weight


def label_reader(layout: Layout) -> Callable[[bytes], float]:
    """The function from a label's text to what `Batch.labels` holds."""
    names = [name.encode() for name in layout.classes]
    numbers = [float(name) if is_number(name) else None for name in names]

    def place_of(text: bytes) -> int:
        if text in names:
            return names.index(text)
        if is_number(text) and float(text) in numbers:
            return numbers.index(float(text))
        raise MalformedError(
            f"the label {shown(text)} is none of the classes {', '.join(layout.classes)}"
        )

    def read(text: bytes) -> float:
        if layout.labels == "ignored":
            return float("nan")
        if layout.labels == "classes":
            return float(place_of(text))
        if names:
            return 2.0 * place_of(text) - 1.0
        value = number(text, "the label")
        if layout.labels == "binary":
            if value not in (-1.0, 0.0, 1.0):
                raise MalformedError(
                    f"the label is {shown(text)}: binary labels are -1 (or 0) and 1; "
                    "name other ones by --classes, or choose a loss for real labels"
                )
            return 1.0 if value > 0 else -1.0
        if layout.labels == "counts" and value < 0:
            raise MalformedError(f"the label is {shown(text)}: counts are 0 or more")
        return value

    return read


def shown(text: bytes) -> str:
    """The text as an error message quotes it."""
    excerpt = text if len(text) <= 40 else text[:37] + b"..."
    return repr(excerpt.decode("utf-8", "backslashreplace"))


# The formats ---------------------------------------------------------------------------------


def line_reader(
    format: Format, layout: Layout, columns: Sequence[bytes] = ()
) -> Callable[[bytes], Row | None]:
    """The function from a line (without its end) to its row; None: the line is blank.

    Args:
        format: of the file.
        layout: of the run.
        columns: of the file, if it is CSV.
    """
    parse: Callable[[bytes], Row | None]
    if format == "svmlight":
        parse = _svmlight(layout)
    elif format == "vw":
        parse = _vowpal_wabbit(layout)
    elif format == "csv":
        parse = _csv(layout, columns)
    else:
        parse = _json(layout)
    interactions = [Interaction.parse(text) for text in layout.interactions]
    if not interactions:
        return parse

    def read(line: bytes) -> Row | None:
        row = parse(line)
        if row is not None:
            row.entries += list(_products(row.entries, interactions, layout.dimensions - 1))
        return row

    return read


def _products(entries: list[Entry], interactions: list[Interaction], mask: int) -> Iterator[Entry]:
    for first, second in interactions:
        for i, a in enumerate(entries):
            if not _passes(a.group, first):
                continue
            # Of a group with itself: each pair once, squares included.
            for b in entries[i:] if first == second else entries:
                if not _passes(b.group, second):
                    continue
                name = a.name + b"*" + b.name
                value = single(float(a.value) * float(b.value), name, "a product of features")
                if value != 0:
                    yield Entry((0, 0), pair(a.number, b.number) & mask, value, name)


def _passes(group: tuple[int, int], test: tuple[int | None, int | None]) -> bool:
    return all(want is None or want == have for want, have in zip(test, group, strict=True))


def _svmlight(layout: Layout) -> Callable[[bytes], Row | None]:
    label_of, mask = label_reader(layout), layout.dimensions - 1

    def parse(line: bytes) -> Row | None:
        tokens = _split(line.partition(b"#")[0])
        if not tokens:
            return None
        row = Row(label_of(tokens[0]))
        for token in tokens[1:]:
            if token.startswith(b"qid:"):
                continue
            index, colon, text = token.partition(b":")
            if not colon or not _INDEX.fullmatch(index):
                raise MalformedError(f"{shown(token)} is not of the form number:value")
            value = single(number(text, "a value"), text, "a value")
            if value != 0:
                row.entries.append(Entry((0, 0), number_of(index) & mask, value, index))
        return row

    return parse


def _split(text: bytes) -> list[bytes]:
    return [token for token in text.replace(b"\t", b" ").split(b" ") if token]


def _vowpal_wabbit(layout: Layout) -> Callable[[bytes], Row | None]:
    label_of, mask = label_reader(layout), layout.dimensions - 1

    def parse(line: bytes) -> Row | None:
        head, bar, rest = line.partition(b"|")
        words = _split(head)
        if not bar:
            if not words:
                return None
            raise MalformedError("there is no | between label and features")
        row = Row()
        if words and (head[-1:] not in (b" ", b"\t") or words[-1].startswith(b"'")):
            row.tag = words.pop().removeprefix(b"'")
        if len(words) > 2:
            raise MalformedError(
                f"{len(words)} words before the tag: only a label and a weight are understood"
            )
        if words:
            row.label = label_of(words[0])
        if len(words) == 2:
            row.weight = weight_of(words[1])
        for chunk in rest.split(b"|"):
            row.entries += namespace(chunk)
        return row

    def namespace(chunk: bytes) -> Iterator[Entry]:
        tokens = _split(chunk)
        name, seed, scale, group = b"", 0, 1.0, (ord(" "), 0)
        if tokens and chunk[:1] not in (b" ", b"\t"):
            name, colon, text = tokens.pop(0).partition(b":")
            if not name:
                raise MalformedError(f"a namespace with the scale {shown(text)} has no name")
            seed, group = number_of(name), group_of(name)
            if colon:
                scale = number(text, "the scale of a namespace")
        unnamed = 0
        for token in tokens:
            feature, colon, text = token.partition(b":")
            value = single(
                (number(text, "a value") if colon else 1.0) * scale, token, "a feature, scaled,"
            )
            if feature:
                index = number_of(feature, seed)
            else:
                index = (seed + unnamed) & 0xFFFFFFFFFFFFFFFF
                feature = str(unnamed).encode()
                unnamed += 1
            if value != 0:
                full = name + b"^" + feature if name else feature
                yield Entry(group, index & mask, value, full)

    return parse


def _csv(layout: Layout, columns: Sequence[bytes]) -> Callable[[bytes], Row | None]:
    label_of, mask = label_reader(layout), layout.dimensions - 1
    delimiter = layout.delimiter.encode()
    roles = [column_role(layout, column) for column in columns]

    def parse(line: bytes) -> Row | None:
        if not line.strip(_SPACES):
            return None
        cells = split_cells(line, delimiter)
        if len(cells) != len(columns):
            raise MalformedError(f"{len(cells)} cells where the header has {len(columns)}")
        row = Row()
        for column, role, cell in zip(columns, roles, cells, strict=True):
            if role == "label":
                row.label = label_of(cell) if cell not in MISSING else row.label
            elif role == "weight":
                row.weight = weight_of(cell)
            elif role == "tag":
                row.tag = cell
            elif role != "ignored" and cell not in MISSING:
                entry = _entry(column, group_of(column), cell, role == "categorical", mask)
                row.entries += [entry] if entry else []
        return row

    return parse


def column_role(layout: Layout, column: bytes) -> str:
    """What a column is: label, weight, tag, ignored, categorical, or feature."""
    name = column.decode("utf-8", "surrogateescape")
    if name in (layout.label, layout.weight, layout.tag):
        return {layout.tag: "tag", layout.weight: "weight", layout.label: "label"}[name]
    if name in layout.ignored:
        return "ignored"
    return "categorical" if name in layout.categorical else "feature"


def _entry(
    name: bytes, group: tuple[int, int], text: bytes, is_categorical: bool, mask: int
) -> Entry | None:
    """A feature from text: a number's value, or ``name=text``."""
    if not is_categorical and (is_number(text) or _NOT_FINITE.fullmatch(text)):
        value = single(number(text, shown(name)), text, shown(name))
        return Entry(group, number_of(name) & mask, value, name) if value != 0 else None
    full = name + b"=" + text
    return Entry(group, number_of(full) & mask, np.float32(1), full)


def split_cells(line: bytes, delimiter: bytes) -> list[bytes]:
    """The cells of a line of CSV; spaces and tabs around a cell are not part of it.

    >>> split_cells(b'1, two ,"three, ""four"" five",', b",")
    [b'1', b'two', b'three, "four" five', b'']
    """
    spaces = _SPACES.replace(delimiter, b"")
    cells, at = [], 0
    while True:
        while line[at : at + 1] and line[at] in spaces:
            at += 1
        if line[at : at + 1] == b'"':
            cell, at = _quoted(line, at + 1)
            while line[at : at + 1] and line[at] in spaces:
                at += 1
            if line[at : at + 1] not in (b"", delimiter):
                raise MalformedError(f"text after the closing quote of {shown(cell)}")
            cells.append(cell)
        else:
            end = line.find(delimiter, at)
            end = len(line) if end < 0 else end
            cells.append(line[at:end].rstrip(spaces))
            at = end
        if at >= len(line):
            return cells
        at += 1


def _quoted(line: bytes, at: int) -> tuple[bytes, int]:
    parts = []
    while True:
        end = line.find(b'"', at)
        if end < 0:
            raise MalformedError("a quote is opened and not closed on this line")
        parts.append(line[at:end])
        if line[end + 1 : end + 2] != b'"':
            return b'"'.join(parts), end + 1
        at = end + 2


def guess_delimiter(line: bytes) -> str:
    """The delimiter that a header has most of; a comma if it has none."""
    return max(DELIMITERS.decode(), key=lambda character: line.count(character.encode()))


def _json(layout: Layout) -> Callable[[bytes], Row | None]:
    label_of, mask = label_reader(layout), layout.dimensions - 1

    def parse(line: bytes) -> Row | None:
        if not line.strip(b" \t\r"):
            return None
        pairs = _load(line)
        row = Row()
        for key, value in pairs:
            role = column_role(layout, key)
            if role == "label":
                row.label = label_of(_text(value)) if value is not None else row.label
            elif role == "weight":
                row.weight = weight_of(_text(value))
            elif role == "tag":
                row.tag = b"" if value is None else _text(value)
            elif role != "ignored":
                row.entries += features(key, group_of(key), value, role == "categorical")
        return row

    def features(
        name: bytes, group: tuple[int, int], value: Any, is_categorical: bool
    ) -> Iterator[Entry]:
        if isinstance(value, _Object):
            for key, inner in value:
                yield from features(name + b"." + key, group, inner, is_categorical)
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                under = name if isinstance(inner, str) else name + b".%d" % i
                yield from features(under, group, inner, is_categorical)
        elif isinstance(value, str):
            yield Entry(
                group,
                number_of(name + b"=" + _utf8(value)) & mask,
                np.float32(1),
                name + b"=" + _utf8(value),
            )
        elif value is not None:
            entry = _entry(name, group, _text(value), is_categorical, mask)
            if entry:
                yield entry

    return parse


class _Object(list[tuple[bytes, Any]]):
    """A JSON object: its pairs, in order, repeated keys and all."""


class _Number(bytes):
    """A JSON number as it is written."""


def _load(line: bytes) -> _Object:
    def constant(text: str) -> None:
        raise MalformedError(f"the line has {text}: only finite numbers can be learned")

    try:
        value = json.loads(
            line.decode("utf-8"),
            object_pairs_hook=lambda pairs: _Object((_utf8(k), v) for k, v in pairs),
            parse_int=lambda text: _Number(text.encode()),
            parse_float=lambda text: _Number(text.encode()),
            parse_constant=constant,
        )
    except MalformedError:
        raise
    except RecursionError:
        value = None
        for _ in range(DEEPEST + 1):
            value = [value]
    except ValueError as error:
        raise MalformedError(f"this is not JSON: {error}") from None
    if _depth(value) > DEEPEST:
        raise MalformedError(f"objects and lists are nested deeper than {DEEPEST}")
    if not isinstance(value, _Object):
        raise MalformedError("the line is not a JSON object: {...}")
    return value


def _depth(value: Any) -> int:
    layers, depth = [value], 0
    while True:
        layers = [v for v in layers if isinstance(v, list)]
        if not layers or depth > DEEPEST:
            return depth
        depth += 1
        layers = [
            inner[1] if isinstance(layer, _Object) else inner for layer in layers for inner in layer
        ]


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # JSON can name halves of a character


def _text(value: Any) -> bytes:
    """A scalar as text."""
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, _Number):
        return bytes(value)
    raise MalformedError("a label, weight or tag is a list, an object or null")
