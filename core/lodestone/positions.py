"""Positions on Earth as points on a sphere, and the distances between them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

EARTH_KM: Final = 6_371.0
"""Mean radius of the Earth."""

Degrees = NDArray[np.float64]
Points = NDArray[np.float64]


def on_sphere(latitudes: Degrees, longitudes: Degrees) -> Points:
    """Return points (n, 3) on the unit sphere of positions (n,) in degrees."""
    phi, theta = np.radians(latitudes), np.radians(longitudes)
    return np.stack((np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)), axis=-1)


def kilometres(ones: Points, others: Points) -> NDArray[np.float64]:
    """Return the distances (…,) along the sphere of points (…, 3) on the unit sphere."""
    chords = np.linalg.norm(ones - others, axis=-1)
    distances: NDArray[np.float64] = 2 * EARTH_KM * np.arcsin(np.minimum(chords / 2, 1.0))
    return distances


def degrees_of(point: Points) -> tuple[float, float]:
    """Return latitude and longitude in degrees of a point (3,) on the unit sphere."""
    return float(np.degrees(np.arcsin(np.clip(point[2], -1, 1)))), float(np.degrees(np.arctan2(point[1], point[0])))


def middle(points: Points) -> Points:
    """Return the point (3,) on the unit sphere at the median of each coordinate of points (n, 3): outliers count little."""
    median: Points = np.median(points, axis=0)
    return median / max(float(np.linalg.norm(median)), 1e-12)
