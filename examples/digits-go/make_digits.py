"""Writes digits.bin.gz: scikit-learn's bundled handwritten digits, in the order of examples/digits.

A record is 64 intensities from 0 to 16, row by row, and the label. The first 360 are held out.
"""

import gzip
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

images, labels = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(labels))
records = np.concatenate([images, labels[:, None]], axis=1)[order].astype(np.uint8)
path = Path(__file__).with_name("digits.bin.gz")
path.write_bytes(gzip.compress(records.tobytes(), 9, mtime=0))
