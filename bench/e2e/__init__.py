"""End to end: row changes committed at a real source, applied at a real target by `tidelock run`."""
