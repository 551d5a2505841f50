# Rows between processes and in memory: packed into one message, read in place, gathered by table.

cdef packed struct Head:
    uint32_t table
    uint64_t ordinal
    uint32_t before  # bytes of the image, 0: none
    uint32_t after


def pack(rows):
    """Changes → bytes; None where a row of them is no RowImage."""
    cdef Py_ssize_t size = 0
    cdef RowImage image
    cdef list parts = []
    cdef object change, before, after
    cdef Head head
    cdef bytes out
    cdef char* at
    for change in rows:
        before, after = change.before, change.after
        size += sizeof(Head)
        if before is not None:
            if not isinstance(before, RowImage):
                return None
            size += (<RowImage> before).size
        if after is not None:
            if not isinstance(after, RowImage):
                return None
            size += (<RowImage> after).size
        parts.append((change, before, after))
    out = PyBytes_FromStringAndSize(NULL, size)
    at = PyBytes_AS_STRING(out)
    for change, before, after in parts:
        head.table = change.table
        head.ordinal = change.ordinal
        head.before = <uint32_t> (<RowImage> before).size if before is not None else 0
        head.after = <uint32_t> (<RowImage> after).size if after is not None else 0
        memcpy(at, &head, sizeof(Head))
        at += sizeof(Head)
        if before is not None:
            image = <RowImage> before
            memcpy(at, image.data(), image.size)
            at += image.size
        if after is not None:
            image = <RowImage> after
            memcpy(at, image.data(), image.size)
            at += image.size
    return out


@cython.final
@cython.no_gc
cdef class PackedRows:
    """The rows of a batch as `pack` made them, not taken apart (`engine.model.records.PackedRows`).

    `layouts`: by table number.  The images that are made of it stay in its bytes.
    """

    cdef bytes packed
    cdef dict layouts
    cdef Py_ssize_t count
    cdef readonly tuple tables

    def __cinit__(self, bytes packed, dict layouts):
        self.packed = packed
        self.layouts = layouts

    def __init__(self, bytes packed, dict layouts):
        """Raises KeyError for a table that has no layout, ValueError for what does not end with a row."""
        cdef Py_ssize_t at = 0
        cdef Head head
        cdef uint32_t table = 0
        cdef dict tables = {}
        while at + <Py_ssize_t> sizeof(Head) <= PyBytes_GET_SIZE(packed):
            at = self.head(at, &head)
            if not self.count or head.table != table:
                table = head.table
                tables[(<Layout?> self.layouts[table]).number] = None
            self.count += 1
        if at != PyBytes_GET_SIZE(packed):
            raise ValueError("packed rows that end within a row")
        self.tables = tuple(tables)

    def __len__(self):
        return self.count

    def __eq__(self, other):
        return tuple(self) == (tuple(other) if isinstance(other, PackedRows) else other)

    def __iter__(self):
        return iter(self.rows(RowChange, None, None))

    def changes(self, make, dict bindings, transactions):
        return self.rows(make, bindings, Places(transactions))

    cdef list rows(self, make, dict bindings, Places places):
        """Without `places` they are as `make` takes those of a batch: by their table's number."""
        cdef Py_ssize_t at = 0, image, size = PyBytes_GET_SIZE(self.packed)
        cdef Head head
        cdef Layout layout = None
        cdef object before, after, binding = None
        cdef uint32_t table = 0
        cdef list rows = []
        while at < size:
            image = at + <Py_ssize_t> sizeof(Head)
            at = self.head(at, &head)
            if layout is None or head.table != table:
                table = head.table
                layout = <Layout> self.layouts[table]
                binding = bindings[table] if bindings is not None else layout.number
            before = _image(layout, self.packed, image, head.before) if head.before else None
            after = _image(layout, self.packed, image + head.before, head.after) if head.after else None
            if places is None:
                rows.append(make(binding, before, after, head.ordinal))
            else:
                places.step()
                rows.append(make(binding, before, after, places.source, places.number, head.ordinal))
        return rows

    def pile(self):
        return Pile()

    def pour(self, dict piles, make, dict bindings, transactions):
        cdef Py_ssize_t at = 0, image, size = PyBytes_GET_SIZE(self.packed)
        cdef Head head
        cdef Places places = Places(transactions)
        cdef Layout layout = None
        cdef Pile pile = None
        cdef object before, after, binding = None
        cdef uint32_t table = 0, kind = 0
        cdef list rest = []
        while at < size:
            image = at + <Py_ssize_t> sizeof(Head)
            at = self.head(at, &head)
            places.step()
            if layout is None or head.table != table:
                table = head.table
                layout = <Layout> self.layouts[table]
                binding = bindings[table]
                pile = piles.get(binding)
                if pile is not None:
                    kind = pile.kind(binding, layout)
            if pile is not None:
                pile.add(kind, places, &head, PyBytes_AS_STRING(self.packed) + image)
                continue
            before = _image(layout, self.packed, image, head.before) if head.before else None
            after = _image(layout, self.packed, image + head.before, head.after) if head.after else None
            rest.append(make(binding, before, after, places.source, places.number, head.ordinal))
        return rest

    cdef Py_ssize_t head(self, Py_ssize_t at, Head* head) noexcept:
        """Read the head of the row at `at`; returns where the next one is."""
        memcpy(head, PyBytes_AS_STRING(self.packed) + at, sizeof(Head))
        return at + <Py_ssize_t> sizeof(Head) + head.before + head.after


cdef packed struct Place:
    uint64_t number
    uint64_t ordinal
    uint32_t source  # index of `Pile.sources`
    uint32_t kind  # of `Pile.bindings` and `Pile.layouts`
    uint32_t before
    uint32_t after


@cython.final
@cython.no_gc
cdef class Pile:
    """Rows of one table copied out of the messages that they came in, side by side, each behind its place in the log
    (`engine.model.records.Pile`)."""

    cdef list sources, bindings, layouts
    cdef object source  # the last of them
    cdef char* data
    cdef Py_ssize_t filled, room
    cdef readonly Py_ssize_t rows

    def __cinit__(self):
        self.sources, self.bindings, self.layouts = [], [], []

    def __dealloc__(self):
        PyMem_Free(self.data)

    @property
    def size(self):
        return self.room

    def changes(self, make):
        cdef bytes buffer = PyBytes_FromStringAndSize(self.data, self.filled)
        cdef Py_ssize_t at = 0
        cdef Place place
        cdef object before, after
        cdef Layout layout
        cdef list changes = []
        while at < self.filled:
            memcpy(&place, self.data + at, sizeof(Place))
            at += sizeof(Place)
            layout = <Layout> self.layouts[place.kind]
            before = _image(layout, buffer, at, place.before) if place.before else None
            at += place.before
            after = _image(layout, buffer, at, place.after) if place.after else None
            at += place.after
            changes.append(
                make(self.bindings[place.kind], before, after, self.sources[place.source], place.number, place.ordinal)
            )
        return changes

    cdef uint32_t kind(self, binding, Layout layout) except? 0xFFFFFFFF:
        """A table's rows may come under more than one shape."""
        cdef Py_ssize_t i
        for i in range(len(self.bindings)):
            if self.bindings[i] is binding and self.layouts[i] is layout:
                return <uint32_t> i
        self.bindings.append(binding)
        self.layouts.append(layout)
        return <uint32_t> (len(self.bindings) - 1)

    cdef int add(self, uint32_t kind, Places places, Head* head, const char* images) except -1:
        cdef Place place
        cdef Py_ssize_t size = <Py_ssize_t> head.before + head.after
        cdef Py_ssize_t more = sizeof(Place) + size, room
        cdef char* data
        if self.filled + more > self.room:
            room = max(2 * self.room, self.filled + more)
            data = <char*> PyMem_Realloc(self.data, room)
            if data == NULL:
                raise MemoryError
            self.data, self.room = data, room
        if self.source is not places.source:
            if self.source != places.source:
                self.source = places.source
                self.sources.append(places.source)
        place.number = places.number
        place.ordinal = head.ordinal
        place.source = <uint32_t> (len(self.sources) - 1)
        place.kind = kind
        place.before, place.after = head.before, head.after
        memcpy(self.data + self.filled, &place, sizeof(Place))
        memcpy(self.data + self.filled + sizeof(Place), images, size)
        self.filled += more
        self.rows += 1
        return 0


@cython.final
cdef class Places:
    """Walks rows and tells the transaction of each."""

    cdef object transactions, source
    cdef uint64_t number
    cdef Py_ssize_t next, row, until

    def __cinit__(self, transactions):
        self.transactions = transactions
        self.next = self.row = self.until = 0

    cdef int step(self) except -1:
        """Go to the first row, or to the next one.  Raises ValueError where rows have no transaction."""
        while self.row >= self.until:
            if self.next >= len(self.transactions):
                raise ValueError("rows without a transaction")
            transaction = self.transactions[self.next]
            self.source, self.number = transaction.source, transaction.number
            self.next += 1
            self.until = self.transactions[self.next].first if self.next < len(self.transactions) else PY_SSIZE_T_MAX
        self.row += 1
        return 0
