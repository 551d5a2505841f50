# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Row images as the log holds them, read in place: the compiled form of rows, beside tuples.

Between a log and a target most values are only passed on: the engine looks at a row's keys, the sink writes its other
columns as text.  A `RowImage` is therefore no tuple of values but a place in the bytes that came from the source; it
behaves as that tuple does (index, length, iteration, equality), makes a Python value only for a column that somebody
asks for, and writes texts for a target without making any.

This module is optional.  Where it is not built, and for tables with a column that `Layout` has no code for, rows are
tuples made by `row_compiler`, slower and equal (tests/adapters/test_row_image.py holds one against the other).
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset, strlen

from tidelock.engine.model.records import RowChange

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

# What this module is built from, put in by the compiler's command (`adapters.compiled.forms`).
cdef extern from *:
    """
    #ifndef TIDELOCK_SOURCE
    #define TIDELOCK_SOURCE ""
    #endif
    """
    const char* TIDELOCK_SOURCE

SOURCE = TIDELOCK_SOURCE.decode()

# One module, so that a call from one job to another is plain C, which the compiler may put in place.
include "layout.pxi"
include "packed_rows.pxi"
include "target_text.pxi"
include "postgres_text.pxi"
include "mysql_literals.pxi"
include "spelling.pxi"
