"""The only formulas of the library: one file per algorithm or reduction.

Every file holds pure functions of (state, gradient) over an explicit array namespace ``xp``, on
lists of leaves, with the sums over leaves and devices injected by a `paroli.core.space.Space`.
Front ends store and traverse; they hold no mathematics.  Start reading at `recursive.py`, then
`diagonal.py`; to add an algorithm, copy `skeleton.py`.

This package re-exports nothing, so that ``paroli.core.recursive`` is always the file; the bricks
themselves are imported from ``paroli``.
"""
