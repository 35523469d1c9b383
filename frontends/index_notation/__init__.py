"""Index notation: ``C[i, j] = pf.sum(k, A[i, k] * B[k, j])``, for people who think in loops.

indices -> terms -> (assignment: ranges, proofs) -> nodes of the same tensor DAG that NumPy code becomes
"""
