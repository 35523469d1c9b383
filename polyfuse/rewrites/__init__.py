"""Rewrites of the tensor DAG before planning: each makes programs fewer or values nearer, none asks a price."""
