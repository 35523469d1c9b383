"""What a plan says about itself: kernels as views, prices, reasons, comparisons."""
