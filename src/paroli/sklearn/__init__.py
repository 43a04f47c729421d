"""scikit-learn estimators with nothing to tune: linear models that learn row by row.

>>> from sklearn.datasets import load_digits
>>> from paroli.sklearn import RecursiveClassifier
>>> X, y = load_digits(return_X_y=True)
>>> model = RecursiveClassifier(random_state=0).fit(X, y)  # one pass
>>> bool(model.score(X, y) > 0.94), bool(model.progressive_loss_ < 0.55)
(True, True)
"""

from paroli.sklearn.estimators import RecursiveClassifier, RecursiveRegressor, combined

__all__ = ["RecursiveClassifier", "RecursiveRegressor", "combined"]
