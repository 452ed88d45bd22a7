"""Writes the golden files: python tests/golden/make.py [--seed N] [--out FOLDER]."""

import argparse
from pathlib import Path

import bag_cases
import float8_cases
import grid_cases
import other_cases
import qparams_cases
import quantize_cases
from data import Family

# A new family comes last: the seeds of those before it stay.
FAMILIES = {
    "quantize": quantize_cases.quantize,
    "dequantize": quantize_cases.dequantize,
    "fake_quantize": quantize_cases.fake_quantize,
    "qparams": qparams_cases.qparams,
    "embedding": other_cases.embedding,
    "grid_sample": grid_cases.grid_sample,
    "grid_sample_3d": grid_cases.grid_sample_3d,
    "affine_grid": other_cases.affine_grid,
    "quantized_linear": other_cases.quantized_linear,
    "embedding_bag": bag_cases.embedding_bag,
    "grid_sample_bicubic": grid_cases.grid_sample_bicubic,
    "grid_sample_double": grid_cases.grid_sample_double,
    "grid_sample_tricubic": grid_cases.grid_sample_tricubic,
    "matmul": other_cases.matmul,
    "weight_only_linear": other_cases.weight_only_linear,
    "float8": float8_cases.float8,
    "weight_only_embedding_bag": bag_cases.weight_only_embedding_bag,
    "quantized_linear_per_group": other_cases.quantized_linear_per_group,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", default=Path(__file__).resolve().parent)
    arguments = parser.parse_args()
    for number, (name, cases) in enumerate(FAMILIES.items()):
        family = Family(name, arguments.seed + number)
        cases(family)
        family.write(arguments.out)


if __name__ == "__main__":
    main()
