"""Learning without learning rates.

The algorithms of 'Matrix-Free Preconditioning in Online Learning' (Cutkosky & Sarlos, ICML 2019) as
bricks that combine, and `OnlineLearner` to play them in NumPy.

>>> import numpy as np
>>> from paroli import OnlineLearner, diagonal, recursive
>>> learner = OnlineLearner(recursive(inner=diagonal()), start=np.zeros(3))
>>> learner.update(np.array([0.1, -0.2, 0.3]))
"""

from paroli.core.adagrad import adagrad, full_adagrad
from paroli.core.averaged import averaged, exponential, polynomial, uniform
from paroli.core.constrained import ball, box, constrained
from paroli.core.diagonal import diagonal
from paroli.core.dimension_free import descent, dimension_free
from paroli.core.doubling import doubling
from paroli.core.ftrl import ftrl
from paroli.core.kempka import scinol1, scinol2
from paroli.core.momentum import momentum
from paroli.core.newton import full_newton, newton
from paroli.core.ons import ons
from paroli.core.recursive import recursive
from paroli.core.rescaled import rescaled
from paroli.core.scinol import scinol
from paroli.core.separate import percoordinate, perleaf
from paroli.online import OnlineLearner

__version__ = "0.1.0.dev0"

__all__ = [
    "OnlineLearner",
    "adagrad",
    "averaged",
    "ball",
    "box",
    "constrained",
    "descent",
    "diagonal",
    "dimension_free",
    "doubling",
    "exponential",
    "ftrl",
    "full_adagrad",
    "full_newton",
    "momentum",
    "newton",
    "ons",
    "percoordinate",
    "perleaf",
    "polynomial",
    "recursive",
    "rescaled",
    "scinol",
    "scinol1",
    "scinol2",
    "uniform",
]
