"""The harness of tests, the demo and benchmarks: servers, feeds between them, and load.  Imports no benchmark."""
