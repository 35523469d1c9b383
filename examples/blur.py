"""A blur and an unsharp mask of a photograph: two passes of a separable filter and the sharpening, one kernel."""

from pathlib import Path

import numpy as np
from PIL import Image

import polyfuse as pf

WEIGHTS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


@pf.jit
def sharpened(image, amount):
    x = image.astype(np.float32)
    rows = sum(w * x[:, k : x.shape[1] - 4 + k] for k, w in enumerate(WEIGHTS))
    blurred = sum(w * rows[k : x.shape[0] - 4 + k] for k, w in enumerate(WEIGHTS))
    centre = x[2:-2, 2:-2]
    return np.clip(centre + amount * (centre - blurred), 0, 255).astype(np.uint8)


photograph = np.asarray(Image.open(Path(__file__).parent / "data" / "camera.png"))
result = sharpened(photograph, 2.0)
Image.fromarray(result).save("camera_sharpened.png")
print(f"{photograph.shape} -> camera_sharpened.png {result.shape}")
print(sharpened.plan(photograph, 2.0))

exact = sharpened.__wrapped__(photograph, 2.0)
assert np.abs(result.astype(int) - exact).max() <= 1  # one grey level where rounding differs
assert result.std() > photograph.std()
