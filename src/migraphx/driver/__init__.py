"""The command line `migraphx-driver`."""
