"""User code to tensor DAGs; imported as `polyfuse.frontends`.  A frontend knows `polyfuse.expr` and nothing below."""
