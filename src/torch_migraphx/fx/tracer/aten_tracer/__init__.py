"""Export to functional ATen graphs."""
