"""Passes on graphs of the FX road under the names that Torch-MIGraphX gives them."""
