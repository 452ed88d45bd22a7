"""The ops, one file for each family. isobit has the functions."""
