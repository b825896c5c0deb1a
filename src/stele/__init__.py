"""Stele: a tablet store for Python and Spark teams."""

__version__ = "0.1.0"
