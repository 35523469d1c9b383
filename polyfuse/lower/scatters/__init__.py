"""The kernels of scatters (`polyfuse.scatters`), which no schedule describes: data say where their updates go."""
