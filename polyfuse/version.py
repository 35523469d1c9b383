"""The version, as a constant: reading package metadata would cost a third of the time that `import polyfuse` may."""

__version__ = "0.1.0"
