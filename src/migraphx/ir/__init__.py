"""The ground floor: types, shapes, operations, modules, programs and their text. Imports nothing of ours."""
