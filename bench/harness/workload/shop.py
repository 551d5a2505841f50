"""*shop*: the busy shop of the demo.

Customers with a unique email, products with stock, orders with foreign keys to both, and
coupons whose unique code moves from row to row: a spent code is freed and issued again at
once under another primary key, and two coupons trade codes.  Customers hand their email on
too (an account is closed, or renamed, and the next customer signs up with the old address).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from bench.harness.session import Flavor
from bench.harness.workload.made import inserts
from bench.harness.workload.pool import Pool
from bench.harness.workload.tables import Table
from bench.harness.workload.workload import Change, Kind, Workload

CUSTOMERS = Table(
    "customers",
    (("id", "bigint", False), ("email", "varchar(64)", False), ("name", "varchar(80)", False),
     ("joined_at", "datetime(6)", False), ("version", "bigint", False)),
    uniques=(("email",),),
)  # fmt: skip
PRODUCTS = Table(
    "products",
    (("id", "bigint", False), ("sku", "varchar(32)", False), ("name", "varchar(80)", False),
     ("price", "decimal(12,2)", False), ("stock", "int", False), ("version", "bigint", False)),
    uniques=(("sku",),),
)  # fmt: skip
ORDERS = Table(
    "orders",
    (("id", "bigint", False), ("customer_id", "bigint", False), ("product_id", "bigint", False),
     ("quantity", "int", False), ("total", "decimal(12,2)", False), ("status", "varchar(16)", False),
     ("ordered_at", "datetime(6)", False), ("version", "bigint", False)),
    references=(("customer_id", "customers", "id"), ("product_id", "products", "id")),
)  # fmt: skip
COUPONS = Table(
    "coupons",
    (("id", "bigint", False), ("code", "varchar(32)", False), ("discount", "decimal(5,2)", False),
     ("issued_at", "datetime(6)", False), ("version", "bigint", False)),
    uniques=(("code",),),
)  # fmt: skip
FEWEST_ROWS = 20
STATUSES = ("paid", "packed", "sent", "delivered")


class Shop(Workload):
    """The model: live rows with their versions, who has which email and which code, customers without orders."""

    name = "shop"
    specs = (CUSTOMERS, PRODUCTS, ORDERS, COUPONS)

    def __init__(self, first: int = 1) -> None:
        """Takes the first number of its rows: shops whose rows go into one table have others."""
        self._ids = {table.name: itertools.count(first) for table in self.specs}
        self._live = {table.name: Pool() for table in self.specs}
        self._versions: dict[tuple[str, int], int] = {}
        self._emails: dict[int, str] = {}
        self._codes: dict[int, str] = {}
        self._idle_customers = Pool()
        self._ordered: set[int] = set()
        super().__init__()
        self._version = first - 1

    def fill(self, flavor: Flavor, orders: int) -> list[str]:
        """Statements that insert what the shop holds before the first change: so many orders, a fourth as many
        customers and coupons, a fortieth as many products.  The model has these rows from then on."""
        customers, products = max(orders // 4, 1), max(orders // 40, 1)
        rows = {"customers": customers, "products": products, "orders": orders, "coupons": customers}
        for table, count in rows.items():
            for id_ in itertools.islice(self._ids[table], count):
                self._live[table].add(id_)
                self._write(table, id_)
        self._emails = {id_: f"customer{id_}@example.com" for id_ in self._live["customers"]}
        self._codes = {id_: f"SAVE-{id_:06}" for id_ in self._live["coupons"]}
        self._ordered.update(self._live["customers"])
        at = "'2024-03-01 00:00:00.000000'"
        digits = "LPAD(CONCAT(s), 6, '0')"
        values = {
            "customers": f"s, CONCAT('customer', s, '@example.com'), CONCAT('Customer ', s), {at}",
            "products": f"s, CONCAT('sku-', {digits}), CONCAT('Product ', s), MOD(s, 90) + 1.95, MOD(s, 50) + 10",
            "orders": f"s, MOD(s, {customers}) + 1, MOD(s, {products}) + 1, 1, 19.95, 'delivered', {at}",
            "coupons": f"s, CONCAT('SAVE-', {digits}), MOD(s, 40) + 5, {at}",
        }
        before = 0
        statements = list[str]()
        for table, count in rows.items():
            statements += inserts(flavor, table, f"{values[table]}, s + {before}", count)
            before += count
        return statements

    def changes(self) -> Iterator[Change]:
        while len(self._live["products"]) < FEWEST_ROWS:
            yield self._sign_up(None)
            yield self._list_product()
            yield self._issue(None)
        while True:
            drawn = self._rng.random()
            if drawn < 0.36 or not self._live["orders"]:
                yield from self._order()
            elif drawn < 0.52:
                status = STATUSES[int(self._rng.random() * len(STATUSES))]
                yield self._update("orders", self._draw("orders"), f"status='{status}'")
            elif drawn < 0.58:
                yield self._delete("orders", self._draw("orders"))
            elif drawn < 0.66:
                yield self._sign_up(None)
            elif drawn < 0.72:
                yield from self._hand_email_on()
            elif drawn < 0.74:
                yield self._list_product()
            elif drawn < 0.80:
                yield self._issue(None)
            elif drawn < 0.94:
                yield from self._reissue()
            else:
                yield from self._trade_codes()

    def _draw(self, table: str) -> int:
        return self._live[table].draw(self._rng)

    def _sign_up(self, email: str | None) -> Change:
        id_ = next(self._ids["customers"])
        self._emails[id_] = email or f"customer{id_}@example.com"
        self._idle_customers.add(id_)
        return self._insert("customers", id_, f"'{self._emails[id_]}','Customer {id_}',{self.moment()}")

    def _list_product(self) -> Change:
        id_ = next(self._ids["products"])
        return self._insert("products", id_, f"'sku-{id_:06}','Product {id_}',{id_ % 90 + 1}.95,{id_ % 50 + 10}")

    def _order(self) -> Iterator[Change]:
        customer, product = self._draw("customers"), self._draw("products")
        if customer not in self._ordered:
            self._ordered.add(customer)
            self._idle_customers.remove(customer)
        quantity = 1 + int(self._rng.random() * 4)
        id_ = next(self._ids["orders"])
        yield self._insert("orders", id_, f"{customer},{product},{quantity},{quantity * 19}.95,'new',{self.moment()}")
        yield self._update("products", product, f"stock=stock-{quantity}")

    def _hand_email_on(self) -> Iterator[Change]:
        """A customer without orders leaves, or any customer takes another address; the next one gets the old one."""
        if self._idle_customers and self._rng.random() < 0.5:
            id_ = self._idle_customers.draw(self._rng)
            self._idle_customers.remove(id_)
            old = self._emails.pop(id_)
            yield self._delete("customers", id_)
        else:
            id_ = self._draw("customers")
            old = self._emails[id_]
            self._emails[id_] = f"moved{self._version}@example.com"
            yield self._update("customers", id_, f"email='{self._emails[id_]}'")
        yield self._sign_up(old)

    def _issue(self, code: str | None) -> Change:
        id_ = next(self._ids["coupons"])
        self._codes[id_] = code or f"SAVE-{id_:06}"
        return self._insert("coupons", id_, f"'{self._codes[id_]}',{id_ % 40 + 5}.00,{self.moment()}")

    def _reissue(self) -> Iterator[Change]:
        """A code goes to a new coupon; the old one is deleted, or kept under a new code."""
        id_ = self._draw("coupons")
        code = self._codes[id_]
        if self._rng.random() < 0.6:
            del self._codes[id_]
            yield self._delete("coupons", id_)
        else:
            yield self._set_code(id_, f"SPENT-{self._version:08}")
        yield self._issue(code)

    def _trade_codes(self) -> Iterator[Change]:
        one, two = self._live["coupons"].sample(self._rng, 2)
        first, second = self._codes[one], self._codes[two]
        yield self._set_code(one, f"TRADE-{self._version:08}")
        yield self._set_code(two, first)
        yield self._set_code(one, second)

    def _set_code(self, id_: int, code: str) -> Change:
        self._codes[id_] = code
        return self._update("coupons", id_, f"code='{code}'")

    def _insert(self, table: str, id_: int, values: str) -> Change:
        self._live[table].add(id_)
        return Kind.INSERT, f"INSERT INTO {table} VALUES ({id_},{values},{self._write(table, id_)})"

    def _update(self, table: str, id_: int, assignments: str) -> Change:
        return Kind.UPDATE, f"UPDATE {table} SET {assignments},version={self._write(table, id_)} WHERE id={id_}"

    def _delete(self, table: str, id_: int) -> Change:
        self.next_version()
        self._live[table].remove(id_)
        self.deleted.append((table, id_, self._versions.pop((table, id_))))
        return Kind.DELETE, f"DELETE FROM {table} WHERE id={id_}"

    def _write(self, table: str, id_: int) -> int:
        """A new version of the row."""
        version = self._versions[table, id_] = self.next_version()
        return version
