"""Propose -> prove -> price: from a program to a plan.  `planner` lists the passes in their order."""
