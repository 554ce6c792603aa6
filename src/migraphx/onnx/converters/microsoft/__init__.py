"""ONNX Runtime's own operators: the domain com.microsoft."""
