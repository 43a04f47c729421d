"""What a reader hands to a learner: a block of sparse rows, and what is promised of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

LabelKind: TypeAlias = Literal["binary", "classes", "real", "counts", "ignored"]
"""What the labels of a stream are; the reader has checked them, and `Batch.labels` holds:

- ``binary``: -1.0 or +1.0, whatever the file says (0 and 1, -1 and +1, or two named classes);
- ``classes``: 0.0, 1.0, ..., K - 1.0, the place of the class in the list of names;
- ``real``: any finite number;
- ``counts``: any finite number that is at least 0;
- ``ignored``: NaN, whatever the file says.
"""

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Batch:
    """A block of rows (x_t, y_t, c_t) of a stream, in compressed sparse rows.

    Row t has the features ``indices[indptr[t]:indptr[t + 1]]`` and ``values[...]`` alike.  A
    feature may come twice in a row, and counts as their sum.  Features of value 0, and missing
    ones, are left out; no constant feature is put in: an intercept is the learner's own.  Where one
    block ends and the next begins means nothing: a learner gives the same numbers, bit for bit,
    however the same rows are cut.

    Args:
        indptr: int64, one more than rows; ``indptr[0] == 0``.
        indices: int32, all in ``[0, dimensions)``.
        values: float32, finite and not 0.
        labels: float64, as `LabelKind` says; NaN: no label, to predict and not to learn.
        weights: float64, finite and at least 0; 0: predict, do not learn.
        dimensions: how many features there can be, a power of two below 2³¹.
        tags: the rows' tags, where the file has any.
        names: a readable name for each entry of `indices`, where asked for.

    >>> batch = Batch(
    ...     indptr=np.array([0, 2, 3]),
    ...     indices=np.array([7, 1, 7], dtype=np.int32),
    ...     values=np.array([1, 0.5, 2], dtype=np.float32),
    ...     labels=np.array([1.0, -1.0]),
    ...     weights=np.ones(2),
    ...     dimensions=8,
    ... )
    >>> len(batch), batch.rows(1, 2).indices.tolist()
    (2, [7])
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    labels: Floats
    weights: Floats
    dimensions: int
    tags: Sequence[bytes] | None = None
    names: Sequence[bytes] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, begin: int, end: int) -> Batch:
        """The rows from `begin` to before `end`, as a view."""
        first, last = int(self.indptr[begin]), int(self.indptr[end])
        return Batch(
            indptr=self.indptr[begin : end + 1] - first,
            indices=self.indices[first:last],
            values=self.values[first:last],
            labels=self.labels[begin:end],
            weights=self.weights[begin:end],
            dimensions=self.dimensions,
            tags=None if self.tags is None else self.tags[begin:end],
            names=None if self.names is None else self.names[first:last],
        )

    def with_labels(self, labels: Floats) -> Batch:
        """The same rows with other labels; NaN hides a row from learning."""
        return Batch(
            self.indptr,
            self.indices,
            self.values,
            labels,
            self.weights,
            self.dimensions,
            self.tags,
            self.names,
        )
