"""Operators of the standard: the domains ai.onnx, ai.onnx.preview and ai.onnx.preview.training."""
