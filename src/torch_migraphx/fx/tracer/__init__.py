"""Front ends: from a module to a graph that the converters read."""
