"""Scatters that kernels run on a GPU, as data: ``np.add.at(x, i, u)`` and its kin.

    elements    h[i[e]] += u[e]          numbers, merged as they come, in a block's own cells or in memory at once
    rows        y[t[r], c] += u[r, c]    whole rows, merged as they come, or walked in the order of their places

What passes make of them, in their order:

    rewrites.scatters           which form every scatter of the program takes, by its price
    rewrites.integer_scatters   floats as integers, whose updates may meet in any order
    legality.atomic             whether updates may be merged as they come
    planning.scatters           the kernels that take the place of a call, their buffers and guards
    lower.scatters              these kernels
    cost.scatters               their price

`polyfuse.library_calls.scatter` is what NumPy and device libraries run where no kernel does.
"""
