"""Passes on graphs: Dynamo's (`torch_ir`), and those on ATen graphs under the names that Torch-MIGraphX gives them."""
