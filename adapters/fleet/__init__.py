"""Many feeds under one process: `tidelock serve DIR`."""
