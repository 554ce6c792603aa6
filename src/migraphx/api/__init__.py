"""The public API: thin faces of the engine's classes, under upstream's names."""
