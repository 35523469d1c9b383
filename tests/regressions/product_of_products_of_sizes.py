"""KeyError: 'n0n1': twice a product of sizes times another size is one product, of sizes alone."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree

PROGRAM = """
def program(x0):
    v1 = np.stack([x0, x0], axis=2)
    v2 = np.tanh(v1)
    return v2
"""

agree(PROGRAM, [ArrayValue((7, 63, 7), "f16", "normal", 378, (441, -7, -1), 1)])
