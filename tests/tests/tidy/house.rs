//! The plan of the house, which the rules of `tidy` compare with the code: who may use whom, where
//! `unsafe` may be, and where each protocol makes something durable.
//!
//! A change of shape changes these tables and ARCHITECTURE.md in the same commit.

/// Which rooms each room may use.
pub(crate) const ARROWS: &[(&str, &[&str])] = &[
    ("pmem", &[]),
    ("disk", &["pmem"]),
    ("storage", &["pmem", "disk"]),
    ("serial_engines", &["storage", "pmem", "disk"]),
    ("page_engine", &["storage", "pmem", "disk"]),
    (
        "engines",
        &["serial_engines", "page_engine", "storage", "pmem", "disk"],
    ),
    ("indelible", &["engines", "storage", "pmem", "disk"]),
    ("join", &[]),
    ("sql_values", &["indelible"]),
    ("sql_parse", &["sql_values"]),
    ("sql_rows", &["sql_values"]),
    ("sql_plan", &["sql_rows", "sql_values", "indelible"]),
    (
        "sql_bind",
        &["sql_parse", "sql_plan", "sql_values", "indelible"],
    ),
    (
        "sql",
        &[
            "sql_bind",
            "sql_parse",
            "sql_plan",
            "sql_rows",
            "sql_values",
            "indelible",
        ],
    ),
    ("client", &["indelible", "sql"]),
    ("capi", &["client", "sql", "indelible", "pmem"]),
    ("python", &["client", "sql", "indelible", "join", "pmem"]),
    ("server", &["indelible", "sql"]),
    ("workload", &["indelible"]),
    (
        "torture",
        &[
            "workload",
            "page_engine",
            "storage",
            "indelible",
            "pmem",
            "disk",
        ],
    ),
    (
        "measure",
        &["pmem", "disk", "indelible", "join", "sql", "workload"],
    ),
    ("delimited", &["indelible"]),
    (
        "lab",
        &[
            "report",
            "measure",
            "delimited",
            "workload",
            "indelible",
            "pmem",
        ],
    ),
    ("report", &[]),
    (
        "cli",
        &[
            "pmem",
            "disk",
            "storage",
            "indelible",
            "join",
            "sql",
            "client",
            "server",
            "workload",
            "torture",
            "measure",
            "delimited",
            "report",
            "lab",
        ],
    ),
    (
        "tests",
        &[
            "pmem",
            "disk",
            "serial_engines",
            "storage",
            "indelible",
            "sql",
            "client",
            "workload",
            "torture",
            "cli",
        ],
    ),
];

/// Which folders of the rooms of engines each folder may use.
pub(crate) const FOLDERS: &[(&str, &str, &[&str])] = &[
    ("storage", "record", &[]),
    ("storage", "log", &["record"]),
    ("storage", "lock", &["record"]),
    ("storage", "engine", &["record", "log", "lock"]),
    ("serial_engines", "index", &[]),
    ("serial_engines", "table", &["index"]),
    ("serial_engines", "lsm", &["index", "table"]),
    ("serial_engines", "engine", &["index", "table", "lsm"]),
    ("page_engine", "page", &[]),
    ("page_engine", "buffer", &["page"]),
    ("page_engine", "paged", &["page", "buffer"]),
    ("page_engine", "engine", &["page", "buffer", "paged"]),
];

/// Rooms, folders and files with `unsafe`.
pub(crate) const UNSAFE_ROOMS: &[&str] = &[
    "crates/pmem/",
    "crates/join/src/simd/",
    "crates/join/src/scratch.rs",
    // Pointers of callers in C, the handler of a signal, and Arrow's structures of other libraries.
    "crates/capi/src/",
    "crates/python/src/interrupt.rs",
    "crates/python/src/stream.rs",
];

/// Protocols that make something durable, with the file that has their commit point.
pub(crate) const PROTOCOLS: &[(&str, &str)] = &[
    ("pool header", "crates/pmem/src/pool.rs"),
    ("growth of a pool", "crates/pmem/src/heap/grow.rs"),
    ("undo log", "crates/storage/src/log/nv_write_set.rs"),
    (
        "log files used again",
        "crates/storage/src/log/wal_spares.rs",
    ),
    (
        "group of copies in durable memory",
        "crates/storage/src/log/nv_master.rs",
    ),
    (
        "group of copies in a file",
        "crates/serial_engines/src/index/cow/file.rs",
    ),
    (
        "slotted pages",
        "crates/serial_engines/src/index/slotted/pages.rs",
    ),
    (
        "groups over slotted pages",
        "crates/serial_engines/src/index/slotted/pages/publish.rs",
    ),
    (
        "log of slot headers",
        "crates/serial_engines/src/index/slotted/log.rs",
    ),
    (
        "log of differences",
        "crates/serial_engines/src/index/slotted/cached/log.rs",
    ),
    (
        "file of pages behind a log of differences",
        "crates/serial_engines/src/index/slotted/cached/home.rs",
    ),
    ("write-ahead log", "crates/storage/src/log/wal_roll.rs"),
    (
        "sync of the write-ahead log",
        "crates/storage/src/log/wal_sync.rs",
    ),
    ("tails of a log", "crates/storage/src/log/tails.rs"),
    ("list of files", "crates/indelible/src/roster.rs"),
    ("checkpoint", "crates/storage/src/log/checkpoint.rs"),
    ("log files of a session", "crates/storage/src/log/series.rs"),
    ("ring of log records", "crates/storage/src/log/nv_ring.rs"),
    ("archive of a log", "crates/storage/src/log/archive.rs"),
    (
        "pages in durable memory",
        "crates/page_engine/src/buffer/nv_pages.rs",
    ),
    (
        "batches of transactions",
        "crates/page_engine/src/buffer/batch_store.rs",
    ),
    (
        "doublewrite batch",
        "crates/page_engine/src/buffer/guard/double_write.rs",
    ),
    (
        "pages that are written one by one",
        "crates/page_engine/src/buffer/guard/single_pages.rs",
    ),
    (
        "slots for copies of pages",
        "crates/page_engine/src/buffer/guard/nv_slots.rs",
    ),
    (
        "page cache in durable memory",
        "crates/page_engine/src/buffer/guard/page_cache.rs",
    ),
    (
        "checkpoint of pages",
        "crates/page_engine/src/buffer/file.rs",
    ),
    (
        "manifest of runs",
        "crates/serial_engines/src/lsm/file/manifest.rs",
    ),
    (
        "creation of a database",
        "crates/indelible/src/descriptor.rs",
    ),
    ("backup", "crates/indelible/src/backup/mod.rs"),
    (
        "output of commands and backups",
        "crates/disk/src/output.rs",
    ),
    (
        "transaction over several partitions",
        "crates/indelible/src/commit_table.rs",
    ),
    (
        "changes of the schema",
        "crates/indelible/src/definitions.rs",
    ),
];
