"""The joints of the public face: what the dispatcher needs from frontends and back ends, each loaded on first use."""
