"""The control API of `tidelock serve DIR --http`: feeds as JSON, and commands about them."""
