"""Operators that exporters write in the standard's domain, and the standard has not, or has no longer."""
