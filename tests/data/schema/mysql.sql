-- Everyday tables of MySQL: a video shop, a firm's people, a web shop, tickets, a warehouse, a ledger, and odd ones.
SET FOREIGN_KEY_CHECKS = 0;

-- ------------------------------------------------------------------ a video shop

CREATE TABLE actor (
    actor_id smallint unsigned NOT NULL AUTO_INCREMENT, first_name varchar(45) NOT NULL, last_name varchar(45) NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (actor_id), KEY idx_actor_last_name (last_name)
) COMMENT='who plays';
CREATE TABLE country (
    country_id smallint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, country varchar(50) NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP
);
CREATE TABLE city (
    city_id smallint unsigned NOT NULL AUTO_INCREMENT, city varchar(50) NOT NULL, country_id smallint unsigned NOT NULL,
    PRIMARY KEY (city_id), KEY idx_fk_country_id (country_id),
    CONSTRAINT fk_city_country FOREIGN KEY (country_id) REFERENCES country (country_id) ON DELETE RESTRICT ON UPDATE CASCADE
);
CREATE TABLE address (
    address_id smallint unsigned NOT NULL AUTO_INCREMENT, address varchar(50) NOT NULL, address2 varchar(50) DEFAULT NULL,
    district varchar(20) NOT NULL, city_id smallint unsigned NOT NULL, postal_code varchar(10) DEFAULT NULL,
    phone varchar(20) NOT NULL, location geometry NOT NULL SRID 0,
    PRIMARY KEY (address_id), KEY idx_fk_city_id (city_id), SPATIAL KEY idx_location (location),
    CONSTRAINT fk_address_city FOREIGN KEY (city_id) REFERENCES city (city_id) ON DELETE RESTRICT ON UPDATE CASCADE
);
CREATE TABLE category (
    category_id tinyint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(25) NOT NULL
);
CREATE TABLE language (
    language_id tinyint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name char(20) NOT NULL
);
CREATE TABLE film (
    film_id smallint unsigned NOT NULL AUTO_INCREMENT, title varchar(255) NOT NULL, description text,
    release_year year DEFAULT NULL, language_id tinyint unsigned NOT NULL, original_language_id tinyint unsigned DEFAULT NULL,
    rental_duration tinyint unsigned NOT NULL DEFAULT 3, rental_rate decimal(4,2) NOT NULL DEFAULT 4.99,
    length smallint unsigned DEFAULT NULL, replacement_cost decimal(5,2) NOT NULL DEFAULT 19.99,
    rating enum('G','PG','PG-13','R','NC-17') DEFAULT 'G',
    special_features set('Trailers','Commentaries','Deleted Scenes','Behind the Scenes') DEFAULT NULL,
    PRIMARY KEY (film_id), KEY idx_title (title), KEY idx_fk_language_id (language_id),
    KEY idx_fk_original_language_id (original_language_id),
    CONSTRAINT fk_film_language FOREIGN KEY (language_id) REFERENCES language (language_id) ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_film_original FOREIGN KEY (original_language_id) REFERENCES language (language_id) ON DELETE RESTRICT
);
CREATE TABLE film_actor (
    actor_id smallint unsigned NOT NULL, film_id smallint unsigned NOT NULL, PRIMARY KEY (actor_id, film_id),
    KEY idx_fk_film_id (film_id),
    CONSTRAINT fk_film_actor_actor FOREIGN KEY (actor_id) REFERENCES actor (actor_id) ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_film_actor_film FOREIGN KEY (film_id) REFERENCES film (film_id) ON DELETE RESTRICT ON UPDATE CASCADE
);
CREATE TABLE film_category (
    film_id smallint unsigned NOT NULL, category_id tinyint unsigned NOT NULL, PRIMARY KEY (film_id, category_id),
    CONSTRAINT fk_film_category_film FOREIGN KEY (film_id) REFERENCES film (film_id),
    CONSTRAINT fk_film_category_category FOREIGN KEY (category_id) REFERENCES category (category_id)
);
CREATE TABLE film_text (
    film_id smallint unsigned NOT NULL PRIMARY KEY, title varchar(255) NOT NULL, description text,
    FULLTEXT KEY idx_title_description (title, description)
);
CREATE TABLE store (
    store_id tinyint unsigned NOT NULL AUTO_INCREMENT, manager_staff_id tinyint unsigned NOT NULL,
    address_id smallint unsigned NOT NULL, PRIMARY KEY (store_id), UNIQUE KEY idx_unique_manager (manager_staff_id),
    CONSTRAINT fk_store_staff FOREIGN KEY (manager_staff_id) REFERENCES staff (staff_id) ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_store_address FOREIGN KEY (address_id) REFERENCES address (address_id) ON DELETE RESTRICT ON UPDATE CASCADE
);
CREATE TABLE staff (
    staff_id tinyint unsigned NOT NULL AUTO_INCREMENT, first_name varchar(45) NOT NULL, picture blob, email varchar(50),
    store_id tinyint unsigned NOT NULL, active tinyint(1) NOT NULL DEFAULT 1, username varchar(16) NOT NULL,
    password varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL, PRIMARY KEY (staff_id),
    CONSTRAINT fk_staff_store FOREIGN KEY (store_id) REFERENCES store (store_id) ON DELETE RESTRICT ON UPDATE CASCADE
);
CREATE TABLE customer (
    customer_id smallint unsigned NOT NULL AUTO_INCREMENT, store_id tinyint unsigned NOT NULL,
    first_name varchar(45) NOT NULL, last_name varchar(45) NOT NULL, email varchar(50) DEFAULT NULL,
    address_id smallint unsigned NOT NULL, active tinyint(1) NOT NULL DEFAULT 1, create_date datetime NOT NULL,
    PRIMARY KEY (customer_id), KEY idx_last_name (last_name), KEY idx_fk_store_id (store_id),
    CONSTRAINT fk_customer_address FOREIGN KEY (address_id) REFERENCES address (address_id) ON UPDATE CASCADE,
    CONSTRAINT fk_customer_store FOREIGN KEY (store_id) REFERENCES store (store_id) ON UPDATE CASCADE
);
CREATE TABLE inventory (
    inventory_id mediumint unsigned NOT NULL AUTO_INCREMENT, film_id smallint unsigned NOT NULL,
    store_id tinyint unsigned NOT NULL, PRIMARY KEY (inventory_id), KEY idx_store_id_film_id (store_id, film_id),
    CONSTRAINT fk_inventory_film FOREIGN KEY (film_id) REFERENCES film (film_id),
    CONSTRAINT fk_inventory_store FOREIGN KEY (store_id) REFERENCES store (store_id)
);
CREATE TABLE rental (
    rental_id int NOT NULL AUTO_INCREMENT, rental_date datetime NOT NULL, inventory_id mediumint unsigned NOT NULL,
    customer_id smallint unsigned NOT NULL, return_date datetime DEFAULT NULL, staff_id tinyint unsigned NOT NULL,
    PRIMARY KEY (rental_id), UNIQUE KEY rental_once (rental_date, inventory_id, customer_id),
    CONSTRAINT fk_rental_staff FOREIGN KEY (staff_id) REFERENCES staff (staff_id),
    CONSTRAINT fk_rental_inventory FOREIGN KEY (inventory_id) REFERENCES inventory (inventory_id),
    CONSTRAINT fk_rental_customer FOREIGN KEY (customer_id) REFERENCES customer (customer_id)
);
CREATE TABLE payment (
    payment_id smallint unsigned NOT NULL AUTO_INCREMENT, customer_id smallint unsigned NOT NULL,
    rental_id int DEFAULT NULL, amount decimal(5,2) NOT NULL, payment_date datetime NOT NULL, PRIMARY KEY (payment_id),
    CONSTRAINT fk_payment_rental FOREIGN KEY (rental_id) REFERENCES rental (rental_id) ON DELETE SET NULL ON UPDATE CASCADE,
    CONSTRAINT fk_payment_customer FOREIGN KEY (customer_id) REFERENCES customer (customer_id)
);

-- ------------------------------------------------------------------ a firm's people

CREATE TABLE employees (
    emp_no int NOT NULL PRIMARY KEY, birth_date date NOT NULL, first_name varchar(14) NOT NULL,
    last_name varchar(16) NOT NULL, gender enum('M','F','X') NOT NULL, hire_date date NOT NULL
);
CREATE TABLE departments (dept_no char(4) COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, dept_name varchar(40) NOT NULL UNIQUE);
CREATE TABLE dept_manager (
    emp_no int NOT NULL, dept_no char(4) COLLATE utf8mb4_bin NOT NULL, from_date date NOT NULL, to_date date NOT NULL,
    PRIMARY KEY (emp_no, dept_no), FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
    FOREIGN KEY (dept_no) REFERENCES departments (dept_no) ON DELETE CASCADE
);
CREATE TABLE dept_emp (
    emp_no int NOT NULL, dept_no char(4) COLLATE utf8mb4_bin NOT NULL, from_date date NOT NULL,
    to_date date NOT NULL DEFAULT '9999-01-01', PRIMARY KEY (emp_no, dept_no),
    FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
    FOREIGN KEY (dept_no) REFERENCES departments (dept_no) ON DELETE CASCADE
);
CREATE TABLE titles (
    emp_no int NOT NULL, title varchar(50) NOT NULL, from_date date NOT NULL, to_date date,
    PRIMARY KEY (emp_no, title, from_date), FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE
);
CREATE TABLE salaries (
    emp_no int NOT NULL, salary int NOT NULL, from_date date NOT NULL, to_date date NOT NULL,
    PRIMARY KEY (emp_no, from_date), CONSTRAINT salary_sane CHECK (salary BETWEEN 0 AND 10000000),
    CONSTRAINT salary_dates CHECK (from_date <= to_date),
    FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE
);

-- ------------------------------------------------------------------ a web shop

CREATE TABLE brand (id int unsigned AUTO_INCREMENT PRIMARY KEY, name varchar(60) NOT NULL, slug varchar(60) NOT NULL, UNIQUE KEY (name), UNIQUE KEY (slug));
CREATE TABLE section (
    id int AUTO_INCREMENT PRIMARY KEY, parent int, name varchar(80) NOT NULL, position smallint NOT NULL DEFAULT 0,
    UNIQUE KEY (parent, name), FOREIGN KEY (parent) REFERENCES section (id) ON DELETE CASCADE
) COMMENT='a tree of what is sold';
CREATE TABLE product (
    id bigint unsigned AUTO_INCREMENT PRIMARY KEY, brand int unsigned, sku char(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ean bigint, name varchar(200) NOT NULL COMMENT 'as the customer sees it', body mediumtext, weight float, height double DEFAULT 1.5,
    net decimal(12,4) NOT NULL, vat decimal(4,2) NOT NULL DEFAULT '19.00',
    gross decimal(14,4) GENERATED ALWAYS AS (net * (1 + vat / 100)) STORED, shown bit(1) NOT NULL DEFAULT b'1',
    attributes json, created datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    UNIQUE KEY by_sku (sku), UNIQUE KEY by_ean (ean), KEY by_name (name(20)), KEY by_body (body(100)), KEY by_price (net DESC),
    KEY by_upper ((upper(name))), FULLTEXT KEY words (name, body),
    CONSTRAINT net_positive CHECK (net >= 0), CONSTRAINT sku_long CHECK (char_length(sku) >= 4),
    CONSTRAINT json_object CHECK (json_type(attributes) = 'OBJECT'),
    FOREIGN KEY (brand) REFERENCES brand (id) ON DELETE SET NULL
);
CREATE TABLE product_section (
    product bigint unsigned NOT NULL, section int NOT NULL, PRIMARY KEY (product, section),
    FOREIGN KEY (product) REFERENCES product (id) ON DELETE CASCADE, FOREIGN KEY (section) REFERENCES section (id) ON DELETE CASCADE
);
CREATE TABLE buyer (
    id int AUTO_INCREMENT PRIMARY KEY, mail varchar(190) NOT NULL, phone varchar(30) COLLATE utf8mb4_bin,
    state enum('new','active','closed') NOT NULL DEFAULT 'new', flags set('vip','b2b','news') NOT NULL DEFAULT '',
    limits decimal(10,2) DEFAULT NULL, born date, seen timestamp NULL, UNIQUE KEY by_mail (mail), UNIQUE KEY by_phone (phone),
    CONSTRAINT known CHECK (state <> 'closed' OR limits IS NULL)
);
CREATE TABLE `order` (
    id bigint AUTO_INCREMENT PRIMARY KEY, buyer int NOT NULL, `from` date NOT NULL, `to` date, `key` char(8) NOT NULL DEFAULT 'none',
    `group` int DEFAULT 0, state enum('open','paid','sent','back') DEFAULT 'open', total decimal(12,2) NOT NULL DEFAULT 0,
    KEY `index` (`from`, `to`), KEY (`group`, `key`), CONSTRAINT `check` CHECK (`from` <= `to` AND `group` >= 0),
    FOREIGN KEY (buyer) REFERENCES buyer (id)
) COMMENT='it''s a reserved word';
CREATE TABLE order_line (
    `order` bigint NOT NULL, line smallint NOT NULL, product bigint unsigned NOT NULL, number int NOT NULL DEFAULT 1, price decimal(12,2) NOT NULL,
    sum decimal(20,2) AS (number * price) VIRTUAL, PRIMARY KEY (`order`, line), CHECK (number > 0),
    FOREIGN KEY (`order`) REFERENCES `order` (id) ON DELETE CASCADE ON UPDATE CASCADE, FOREIGN KEY (product) REFERENCES product (id)
);
CREATE TABLE cart (token binary(16) PRIMARY KEY, buyer int, expires timestamp NOT NULL DEFAULT '2030-01-01 00:00:00', FOREIGN KEY (buyer) REFERENCES buyer (id) ON DELETE CASCADE);
CREATE TABLE cart_line (cart binary(16) NOT NULL, product bigint unsigned NOT NULL, number tinyint unsigned DEFAULT 1, PRIMARY KEY (cart, product), FOREIGN KEY (cart) REFERENCES cart (token) ON DELETE CASCADE, FOREIGN KEY (product) REFERENCES product (id));
CREATE TABLE coupon (code varchar(20) COLLATE utf8mb4_bin PRIMARY KEY, percent tinyint NOT NULL, until datetime DEFAULT '2029-12-31 23:59:59', CHECK (percent IN (5, 10, 20)));
CREATE TABLE coupon_use (coupon varchar(20) COLLATE utf8mb4_bin NOT NULL, buyer int NOT NULL, PRIMARY KEY (coupon, buyer), FOREIGN KEY (coupon) REFERENCES coupon (code), FOREIGN KEY (buyer) REFERENCES buyer (id));
CREATE TABLE shipment (id int AUTO_INCREMENT PRIMARY KEY, `order` bigint NOT NULL, carrier varchar(20) NOT NULL DEFAULT 'post', sent datetime, took time DEFAULT '48:00:00', KEY by_sent (sent), FOREIGN KEY (`order`) REFERENCES `order` (id));
CREATE TABLE review (id int AUTO_INCREMENT PRIMARY KEY, product bigint unsigned NOT NULL, buyer int, stars tinyint NOT NULL, words text, CHECK (stars BETWEEN 1 AND 5), UNIQUE KEY once (product, buyer), FOREIGN KEY (product) REFERENCES product (id) ON DELETE CASCADE, FOREIGN KEY (buyer) REFERENCES buyer (id) ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE refund (id int AUTO_INCREMENT PRIMARY KEY, `order` bigint NOT NULL, line smallint NOT NULL, amount decimal(12,2) NOT NULL, FOREIGN KEY (`order`, line) REFERENCES order_line (`order`, line));

-- ------------------------------------------------------------------ tickets

CREATE TABLE team (id int AUTO_INCREMENT PRIMARY KEY, name varchar(40) NOT NULL, chief int, UNIQUE KEY (name), FOREIGN KEY (chief) REFERENCES agent (id) ON DELETE SET NULL);
CREATE TABLE agent (id int AUTO_INCREMENT PRIMARY KEY, team int NOT NULL, login varchar(32) COLLATE utf8mb4_bin NOT NULL, UNIQUE KEY (login), FOREIGN KEY (team) REFERENCES team (id));
CREATE TABLE ticket (
    id int unsigned AUTO_INCREMENT PRIMARY KEY, parent int unsigned, agent int, subject varchar(255) NOT NULL, priority enum('low','high') NOT NULL DEFAULT 'low',
    opened timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, closed timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP, meta json DEFAULT (json_object()),
    day date AS (cast(opened AS date)) STORED, KEY by_state (closed, priority), KEY by_subject (subject(30), opened), UNIQUE KEY by_part (subject(100), opened),
    FOREIGN KEY (parent) REFERENCES ticket (id) ON DELETE SET NULL, FOREIGN KEY (agent) REFERENCES agent (id)
);
CREATE TABLE ticket_comment (id bigint AUTO_INCREMENT PRIMARY KEY, ticket int unsigned NOT NULL, author varchar(40), body longtext NOT NULL, at datetime(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), FOREIGN KEY (ticket) REFERENCES ticket (id) ON DELETE CASCADE);
CREATE TABLE tag (id int AUTO_INCREMENT PRIMARY KEY, name varchar(30) NOT NULL, colour char(7) DEFAULT '#ffffff', UNIQUE KEY (name));
CREATE TABLE ticket_tag (ticket int unsigned NOT NULL, tag int NOT NULL, PRIMARY KEY (ticket, tag), KEY (tag), FOREIGN KEY (ticket) REFERENCES ticket (id) ON DELETE CASCADE, FOREIGN KEY (tag) REFERENCES tag (id) ON DELETE CASCADE);
CREATE TABLE attachment (id int AUTO_INCREMENT PRIMARY KEY, ticket int unsigned NOT NULL, name varchar(255), content longblob, digest varbinary(32), size int unsigned NOT NULL DEFAULT 0, KEY by_digest (digest), KEY by_content (content(16)), FOREIGN KEY (ticket) REFERENCES ticket (id));
CREATE TABLE ticket_history (ticket int unsigned NOT NULL, at datetime NOT NULL, what varchar(20) NOT NULL, was text, now text, KEY (ticket, at));
CREATE TABLE sla (id int PRIMARY KEY, name varchar(20), response time NOT NULL DEFAULT '04:00:00', days set('mo','tu','we','th','fr','sa','su') DEFAULT 'mo,tu,we,th,fr');

-- ------------------------------------------------------------------ a warehouse

CREATE TABLE warehouse (id smallint AUTO_INCREMENT PRIMARY KEY, code char(3) NOT NULL, place point, UNIQUE KEY (code));
CREATE TABLE shelf (warehouse smallint NOT NULL, number int NOT NULL, depth float(5,2), PRIMARY KEY (warehouse, number), FOREIGN KEY (warehouse) REFERENCES warehouse (id));
CREATE TABLE stock (product bigint unsigned NOT NULL, warehouse smallint NOT NULL, shelf int NOT NULL, number int NOT NULL DEFAULT 0, PRIMARY KEY (product, warehouse, shelf), FOREIGN KEY (warehouse, shelf) REFERENCES shelf (warehouse, number) ON UPDATE CASCADE, FOREIGN KEY (product) REFERENCES product (id), CONSTRAINT not_below CHECK (number >= 0));
CREATE TABLE stock_move (id bigint unsigned AUTO_INCREMENT, product bigint unsigned NOT NULL, moved date NOT NULL, number int NOT NULL, reason varchar(20) DEFAULT 'sale', PRIMARY KEY (id, moved), KEY (product)) PARTITION BY RANGE COLUMNS (moved) (PARTITION p2025 VALUES LESS THAN ('2026-01-01'), PARTITION p2026 VALUES LESS THAN ('2027-01-01'), PARTITION later VALUES LESS THAN (MAXVALUE));
CREATE TABLE supplier (id int AUTO_INCREMENT PRIMARY KEY, name varchar(100) NOT NULL, iban varchar(34), terms text DEFAULT ('net 30'), UNIQUE KEY (iban));
CREATE TABLE purchase (id int AUTO_INCREMENT PRIMARY KEY, supplier int NOT NULL, ordered date DEFAULT (curdate()), due date, FOREIGN KEY (supplier) REFERENCES supplier (id), CONSTRAINT due_later CHECK (due >= ordered));
CREATE TABLE purchase_line (purchase int NOT NULL, product bigint unsigned NOT NULL, number int NOT NULL, price decimal(12,4), PRIMARY KEY (purchase, product), FOREIGN KEY (purchase) REFERENCES purchase (id) ON DELETE CASCADE, FOREIGN KEY (product) REFERENCES product (id));
CREATE TABLE reading (sensor int NOT NULL, at timestamp(6) NOT NULL, value double, quality tinyint DEFAULT -1, PRIMARY KEY (sensor, at)) PARTITION BY HASH (sensor) PARTITIONS 4;

-- ------------------------------------------------------------------ a ledger

CREATE TABLE currency (code char(3) COLLATE utf8mb4_bin PRIMARY KEY, name varchar(40) NOT NULL, digits tinyint NOT NULL DEFAULT 2);
CREATE TABLE rate (base char(3) COLLATE utf8mb4_bin NOT NULL, quote char(3) COLLATE utf8mb4_bin NOT NULL, day date NOT NULL, rate decimal(30,15) NOT NULL, PRIMARY KEY (base, quote, day), FOREIGN KEY (base) REFERENCES currency (code), FOREIGN KEY (quote) REFERENCES currency (code), CHECK (rate > 0));
CREATE TABLE account (id int AUTO_INCREMENT PRIMARY KEY, parent int, number varchar(20) COLLATE utf8mb4_bin NOT NULL, name varchar(80) NOT NULL, kind enum('asset','debt','income','cost') NOT NULL, currency char(3) COLLATE utf8mb4_bin NOT NULL DEFAULT 'EUR', UNIQUE KEY (number), UNIQUE KEY (parent, name), FOREIGN KEY (parent) REFERENCES account (id), FOREIGN KEY (currency) REFERENCES currency (code));
CREATE TABLE journal (id bigint AUTO_INCREMENT PRIMARY KEY, posted date NOT NULL, words varchar(255), reverses bigint, UNIQUE KEY (reverses), FOREIGN KEY (reverses) REFERENCES journal (id));
CREATE TABLE entry (journal bigint NOT NULL, line int NOT NULL, account int NOT NULL, debit decimal(18,2) NOT NULL DEFAULT 0, credit decimal(18,2) NOT NULL DEFAULT 0, amount decimal(20,2) AS (debit - credit) STORED, PRIMARY KEY (journal, line), KEY by_account (account, journal), CONSTRAINT one_side CHECK (debit = 0 OR credit = 0), FOREIGN KEY (journal) REFERENCES journal (id), FOREIGN KEY (account) REFERENCES account (id));
CREATE TABLE period (year year NOT NULL, month tinyint NOT NULL, closed tinyint(1) DEFAULT 0, PRIMARY KEY (year, month), CHECK (month >= 1 AND month <= 12));
CREATE TABLE budget (account int NOT NULL, year year NOT NULL, month tinyint NOT NULL, amount decimal(18,2), PRIMARY KEY (account, year, month), FOREIGN KEY (year, month) REFERENCES period (year, month), FOREIGN KEY (account) REFERENCES account (id));

-- ------------------------------------------------------------------ odd ones

CREATE TABLE `user` (id int AUTO_INCREMENT PRIMARY KEY, `name` varchar(40), `password` varbinary(60), `default` int DEFAULT 7, `end` int AS (`default` + 1) VIRTUAL);
CREATE TABLE `group` (id int PRIMARY KEY, `user` int NOT NULL, `select` varchar(10) DEFAULT 'all', FOREIGN KEY (`user`) REFERENCES `user` (id));
CREATE TABLE `two words` (id int PRIMARY KEY, `a column` int DEFAULT 1, `Mixed Case` int, KEY `an index` (`a column`), CONSTRAINT `a check` CHECK (`a column` > 0));
CREATE TABLE setting (name varchar(64) COLLATE utf8mb4_bin PRIMARY KEY, value json NOT NULL, path varchar(100) DEFAULT 'c:\\temp', token char(36) DEFAULT (uuid()));
CREATE TABLE numbers (id bigint unsigned PRIMARY KEY, tiny tinyint DEFAULT -128, small smallint unsigned DEFAULT 65535, medium mediumint DEFAULT 8388607, wide bigint unsigned DEFAULT 18446744073709551615, bits bit(12) DEFAULT b'101', real_ float DEFAULT 0.5, exact decimal(65,30) DEFAULT '1.000000000000000000000000000000');
CREATE TABLE no_key (at datetime NOT NULL, what varchar(20), KEY (at));
CREATE TABLE counter_on_side (id int PRIMARY KEY, number int NOT NULL AUTO_INCREMENT, UNIQUE KEY (number));
CREATE TABLE job (id bigint AUTO_INCREMENT PRIMARY KEY, state varchar(10) COLLATE utf8mb4_bin NOT NULL DEFAULT 'idle', open tinyint AS (if(state = 'done', NULL, 1)) STORED, UNIQUE KEY one_open (state, open), CONSTRAINT state_known CHECK (state IN ('idle', 'busy', 'done')));
SET FOREIGN_KEY_CHECKS = 1;
