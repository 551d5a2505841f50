"""The ordered log as an apply machine takes it: its chain, its buffer, its receipts, its watermark."""
