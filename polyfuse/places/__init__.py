"""From a proposal (splits of the roots' dimensions into digits) to a placed statement for everything a kernel does."""
